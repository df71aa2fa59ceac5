#include <algorithm>

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/parallel.h"

namespace binade::cpu {

void run_softmax(const SoftmaxArgs& a) {
  constexpr std::int64_t kGrain = 1 << 13;
  if (a.rows * a.cols == 0) return;
  const RowKernels& loops = *level().rows;
  parallel_for(a.rows, std::max<std::int64_t>(1, kGrain / a.cols), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const In x = a.x.at(r * a.pitch);
      const Out y = a.y.at(r * a.cols);
      if (a.backward)
        loops.softmax_backward(x, a.gy.at(r * a.cols), y, a.cols, a.log);
      else
        loops.softmax(x, y, a.cols, a.log);
    }
  });
}

/// Works in blocks of 16384 elements; element i uses word i of the random stream.
void run_dropout(const DropoutArgs& a) {
  parallel_for(a.count, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    level().rows->dropout(a.x.at(begin), a.y.at(begin), end - begin, a.stream, begin, a.drop, a.scale);
  });
}

}  // namespace binade::cpu
