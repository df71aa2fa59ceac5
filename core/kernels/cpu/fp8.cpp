#include <algorithm>
#include <vector>

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kGrain = 8192;

/// Calls f(from, to, n) for the part of each row between elements `begin` and `end`.
template <class F>
void each_chunk(const Fp8Rounding& r, std::int64_t begin, std::int64_t end, F&& f) {
  while (begin < end) {
    const std::int64_t row = begin / r.cols, n = std::min(end, (row + 1) * r.cols) - begin;
    f(static_cast<const bfloat16*>(r.x) + row * r.pitch + begin % r.cols, static_cast<bfloat16*>(r.y) + begin, n);
    begin += n;
  }
}

/// Calls f(from, to, n) for all parts of x. Returns the largest finite magnitude of x.
template <class F>
float largest_over(const Fp8Rounding& r, const F& f) {
  const std::int64_t count = r.rows * r.cols;
  std::vector<float> largest(static_cast<std::size_t>((count + kGrain - 1) / kGrain), 0);
  parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    float& here = largest[static_cast<std::size_t>(begin / kGrain)];
    each_chunk(r, begin, end, [&](const bfloat16* from, bfloat16* to, std::int64_t n) {
      here = std::max(here, level().fp8.largest(from, n).to_float());
      f(from, to, n);
    });
  });
  return largest.empty() ? 0 : *std::ranges::max_element(largest);
}

}  // namespace

void run_fp8_round(const Fp8Rounding& r) {
  float amax = largest_in(r.history);
  if (amax == 0) amax = largest_over(r, [](const bfloat16*, bfloat16*, std::int64_t) {});
  const int exponent = scale_exponent(amax, r.format);
  const float amax_now = largest_over(r, [&](const bfloat16* from, bfloat16* to, std::int64_t n) {
    level().fp8.round(r.format, exponent, from, to, n);
  });
  if (r.record != nullptr && !(amax_now <= *r.record)) *r.record = amax_now;
}

void run_fp8_begin_step(const Fp8BeginStep& a) {
  constexpr int kRow = 1 + kFp8Window;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    float* const first = a.amaxes + row * kRow;
    std::copy_backward(first, first + kFp8Window, first + kRow);
    *first = 0;
  }
}

}  // namespace binade::cpu
