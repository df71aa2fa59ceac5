#pragma once

#include <algorithm>
#include <array>

#include "binade/core/kernels/elementwise.h"
#include "binade/core/parallel.h"

namespace binade::cpu {

using Offsets = std::array<std::int64_t, Walk::kMaxOperands>;

/// Calls body(offsets, count) in parallel for chunks of `count` elements that together cover the walk; operand i of a
/// chunk begins at element offsets[i]. The chunks depend on the shapes alone.
template <class F>
void for_each_chunk(const Walk& walk, F&& body) {
  constexpr std::int64_t kGrain = 1 << 14;
  if (walk.runs == 0 || walk.length == 0) return;
  const std::int64_t chunks = (walk.length + kGrain - 1) / kGrain;  // number of chunks of one run
  const std::int64_t runs_per_task = std::max<std::int64_t>(1, kGrain / walk.length);
  const std::int64_t groups = (walk.runs + runs_per_task - 1) / runs_per_task;
  parallel_blocks(groups * chunks, [&](std::int64_t block) {
    const std::int64_t begin = block % chunks * kGrain;
    const std::int64_t count = std::min(kGrain, walk.length - begin);
    const std::int64_t first = block / chunks * runs_per_task;
    for (std::int64_t run = first; run < std::min(walk.runs, first + runs_per_task); ++run) {
      Offsets offsets{};
      for (std::int64_t d = 0, rest = run; d < walk.outer; rest /= walk.extents[d++])
        for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] += rest % walk.extents[d] * walk.strides[d][i];
      for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] += begin * walk.steps[i];
      body(offsets, count);
    }
  });
}

}  // namespace binade::cpu
