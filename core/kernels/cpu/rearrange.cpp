#include <algorithm>
#include <cstring>

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 15;  // elements

template <class E>
void copy(E* to, const E* from, std::int64_t n) {
  if (n == 1)
    *to = *from;
  else
    std::memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(n) * sizeof(E));
}

template <class E>
void rearrange_typed(const RearrangeArgs& a) {
  E fill;
  std::memcpy(&fill, &a.fill, sizeof fill);
  const auto* from = static_cast<const E*>(a.from);
  auto* to = static_cast<E*>(a.to);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / a.inner);
  parallel_for(a.outer * a.count, grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t o = begin / a.count, j = begin % a.count;
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t s = a.map(j), whole = (o * a.map.extent + s) * a.inner;
      if (a.push && s >= 0)
        copy(to + whole, from + r * a.inner, a.inner);
      else if (!a.push && s >= 0)
        copy(to + r * a.inner, from + whole, a.inner);
      else if (!a.push)
        std::fill_n(to + r * a.inner, a.inner, fill);
      if (++j == a.count) {
        j = 0;
        ++o;
      }
    }
  });
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
        for (std::int64_t i = 0; i < a.inner; ++i) {
          Compute<T> sum{};
          for (std::int64_t t = a.begin[s]; t < a.begin[s + 1]; ++t)
            sum += load(gy[(o * a.count + a.from[t]) * a.inner + i]);
          gx[r * a.inner + i] = store<T>(sum);
        }
      }
    });
  });
}

}  // namespace binade::cpu
