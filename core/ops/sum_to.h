#pragma once

#include "binade/core/tensor.h"

namespace binade::ops {

/// y = x summed over the dimensions that broadcasting y to x would repeat: x (4, 3, 5) to y (3, 1) sums dimensions 0
/// and 2. Adds in f32 (f64 for f64) in a tree that depends on the shapes alone; one rounding. y contiguous, x of any
/// pitch.
void sum_to(const Tensor& x, Tensor& y);

}  // namespace binade::ops
