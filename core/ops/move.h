#pragma once

#include <span>
#include <string_view>

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Returns `info` with the fields of ops whose output has the values of their inputs in another arrangement.
constexpr OpInfo move_info(OpInfo info) {
  info.numerics = {.ulp_f32 = 0, .ulp_half = 0};
  info.observed = Observed::kMoves;
  info.carries_masks = true;
  info.mask_inputs = 0b1;
  return info;
}

/// Copy `part` into positions [begin, begin + part.dim(axis)) of `axis` of `whole`, or out of them. Other extents are
/// equal. The destination must be contiguous unless `axis` is the last one; the source may be a channel slice.
void copy_into(Tensor& whole, int axis, std::int64_t begin, const Tensor& part);
void copy_out(const Tensor& whole, int axis, std::int64_t begin, Tensor& part);

/// Maps axis from [-rank, rank) to [0, rank). Throws ArgumentError if it is out of range.
int checked_axis(std::string_view op, int axis, int rank);
inline int checked_axis(const OpInfo& info, int axis, int rank) { return checked_axis(info.name, axis, rank); }

/// A shape as (outer, extent, inner): the product of the extents before an axis, its extent, and the product of those
/// after it. All are 0 if there are no elements. A scalar is (1, 1, 1).
struct AxisView {
  std::int64_t outer = 1, extent = 1, inner = 1;
  AxisView(const Shape& shape, int axis);
};

}  // namespace binade::ops
