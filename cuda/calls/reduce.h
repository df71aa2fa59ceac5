#pragma once

#include "binade/cuda/calls/elementwise.h"

namespace binade::cuda {

/// ReduceKernels::sum and max (core/ops/reduce.h). x is seen as groups of neighboring dimensions that are all reduced
/// or all kept, outermost first; y holds the kept ones, contiguous. Where x is a channel slice its last dimension is
/// a group of its own, `pitch` elements from one row to the next; else `pitch` is 0.
struct ReduceCall {
  static constexpr int kMaxGroups = 8;
  bool largest = false;  ///< else the sum, divided by `divisor`
  double divisor = 1;
  const std::int64_t* count = nullptr;  ///< not null: in device memory, the divisor
  Source x;
  Target y;
  int groups = 0;
  std::int64_t extents[kMaxGroups] = {};
  bool reduced[kMaxGroups] = {};
  std::int64_t pitch = 0;
};

/// out = x equals y ? g : 0, NaN being equal to NaN
struct MaxGradientCall {
  Walk walk;
  Source in[3];  ///< x, y, g
  Target out;
};

}  // namespace binade::cuda
