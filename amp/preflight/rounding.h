#pragma once

#include "binade/core/dtype.h"
#include "binade/core/ops/value_range.h"

namespace binade::amp {

/// `x` as a tensor of `dtype` holds it.
double rounded(double x, DType dtype);

/// Bounds are rounded as the values are: a sigmoid reaches 0 and 1, and 0 + 1e-8 is 0 in f16.
ValueRange rounded(const ValueRange& range, DType dtype);

}  // namespace binade::amp
