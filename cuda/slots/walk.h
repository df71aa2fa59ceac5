#pragma once

#include "binade/core/ops/broadcast_plan.h"
#include "binade/core/tensor.h"
#include "binade/cuda/calls/elementwise.h"

namespace binade::cuda {

inline Source source(const Tensor& t) { return {t.raw(), t.dtype()}; }
inline Target target(Tensor& t) { return {t.mutable_raw(), t.dtype()}; }

/// The plan of a broadcast as a kernel reads it; `operands` of them.
inline Walk walk_of(const ops::BroadcastPlan& plan, int operands) {
  Walk walk{.runs = plan.runs(), .length = plan.length(), .outer = plan.outer()};
  for (int d = 0; d < walk.outer; ++d) {
    walk.extents[d] = plan.extent(d);
    for (int i = 0; i < operands; ++i) walk.strides[d][i] = plan.stride(d, i);
  }
  for (int i = 0; i < operands; ++i) walk.steps[i] = plan.step(i);
  return walk;
}

}  // namespace binade::cuda
