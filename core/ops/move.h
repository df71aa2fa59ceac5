#pragma once

#include <span>

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Copies of whole elements, for concat, slice and permute.

/// Elements [begin, begin + count) along `axis` of contiguous `whole` <-> `part` (the same but for that extent; a
/// channel slice where axis is not the last).
void copy_into(Tensor& whole, int axis, std::int64_t begin, const Tensor& part);
void copy_out(const Tensor& whole, int axis, std::int64_t begin, Tensor& part);

/// axis in [-rank, rank) -> [0, rank); throws ArgumentError.
int checked_axis(const OpInfo& info, int axis, int rank);

}  // namespace binade::ops
