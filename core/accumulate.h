#pragma once

#include "binade/core/tensor.h"

namespace binade {

/// into += from, element by element in float (double for f64), one rounding to into's dtype. Same shape and device.
/// Raises into's version.
void accumulate(Tensor& into, const Tensor& from);

}  // namespace binade
