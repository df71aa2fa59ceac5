#include <algorithm>
#include <cstring>
#include <type_traits>

#include "binade/core/kernels/axis_walk.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cpu/vector16.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 15;  // elements

/// Copies n elements. A call of memcpy() takes longer than the copy of a short run.
template <class E>
void copy(E* to, const E* from, std::int64_t n) {
  constexpr std::int64_t kLanes = kLanes16<E>, kShort = 16;
  if (n < kLanes) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
  } else if (n <= kShort * kLanes) {
    for (std::int64_t i = 0; i + kLanes <= n; i += kLanes) store16(to + i, load16<E>(from + i));
    store16(to + n - kLanes, load16<E>(from + n - kLanes));
  } else {
    std::memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(n) * sizeof(E));
  }
}

template <class E>
void rearrange_typed(const RearrangeArgs& a) {
  E fill;
  std::memcpy(&fill, &a.fill, sizeof fill);
  const auto* from = static_cast<const E*>(a.from);
  auto* to = static_cast<E*>(a.to);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / a.inner);
  parallel_for(a.outer * a.count, grain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t o = begin / a.count, j = begin % a.count, n = std::min(a.count - j, end - begin);
      AxisWalk walk(a.map, j);
      for (std::int64_t r = begin; r < begin + n; ++r) {
        const std::int64_t s = walk.next(), whole = (o * a.map.extent + s) * a.inner;
        if (a.push && s >= 0)
          copy(to + whole, from + r * a.inner, a.inner);
        else if (!a.push && s >= 0)
          copy(to + r * a.inner, from + whole, a.inner);
        else if (!a.push)
          std::fill_n(to + r * a.inner, a.inner, fill);
      }
      begin += n;
    }
  });
}

/// gx = the sum of `count` rows of gy, which are added in order.
template <class T>
void sum_rows(const T* gy, const std::int64_t* row, std::int64_t count, std::int64_t inner, T* gx) {
  std::int64_t i = 0;
  if constexpr (std::is_floating_point_v<T>) {
    constexpr std::int64_t kStep = 4 * kLanes16<T>;
    for (; i + kStep <= inner; i += kStep) {
      Vector16<T> sum[4] = {};
      for (std::int64_t t = 0; t < count; ++t)
        for (int v = 0; v < 4; ++v) sum[v] += load16<T>(gy + row[t] * inner + i + v * kLanes16<T>);
      for (int v = 0; v < 4; ++v) store16(gx + i + v * kLanes16<T>, sum[v]);
    }
  }
  for (; i < inner; ++i) {
    Compute<T> sum{};
    for (std::int64_t t = 0; t < count; ++t) sum += load(gy[row[t] * inner + i]);
    gx[i] = store<T>(sum);
  }
}

}  // namespace

void run_rearrange(const RearrangeArgs& a) {
  if (a.outer * a.count * a.inner == 0) return;
  switch (a.element_bytes) {
    case 1: return rearrange_typed<std::uint8_t>(a);
    case 2: return rearrange_typed<std::uint16_t>(a);
    case 4: return rearrange_typed<std::uint32_t>(a);
    default: return rearrange_typed<std::uint64_t>(a);
  }
}

void run_rearrange_sum(const RearrangeSumArgs& a) {
  if (a.outer * a.extent * a.inner == 0) return;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / a.inner);
  dispatch_float(a.gx.dtype, "rearrange", [&]<class T>(TypeTag<T>) {
    const auto* gy = static_cast<const T*>(a.gy.data);
    auto* gx = static_cast<T*>(a.gx.data);
    parallel_for(a.outer * a.extent, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t o = r / a.extent, s = r % a.extent;
        sum_rows(gy + o * a.count * a.inner, a.from + a.begin[s], a.begin[s + 1] - a.begin[s], a.inner,
                 gx + r * a.inner);
      }
    });
  });
}

}  // namespace binade::cpu
