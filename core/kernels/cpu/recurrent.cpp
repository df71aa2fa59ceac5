#include <algorithm>

#include "binade/core/error.h"
#include "binade/core/faults.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

/// Calls loop(begin, end) for the work items of one step, about 4,096 elements per block of work.
template <class F>
void each_block(std::int64_t batch, std::int64_t hidden, F&& loop) {
  constexpr std::int64_t kGrain = 1 << 12;
  const std::int64_t strips = (hidden + kRecurrentStrip - 1) / kRecurrentStrip;
  parallel_for(batch * strips, std::max<std::int64_t>(1, kGrain / std::clamp<std::int64_t>(hidden, 1, kRecurrentStrip)),
               loop);
}

}  // namespace

void run_recurrent_forward(const RecurrentForward& a) {
  for (std::int64_t i = 0; i < a.batch && a.lengths != nullptr; ++i)
    if (a.lengths[i] < 0 || a.lengths[i] > a.steps) [[unlikely]]
      throw DataError(describe({.call = a.call, .position = i, .value = a.lengths[i]}));
  each_block(a.batch, a.hidden,
             [&](std::int64_t begin, std::int64_t end) { level().recurrent.forward(a, begin, end); });
}

void run_recurrent_backward(const RecurrentBackward& a) {
  each_block(a.batch, a.hidden,
             [&](std::int64_t begin, std::int64_t end) { level().recurrent.backward(a, begin, end); });
}

}  // namespace binade::cpu
