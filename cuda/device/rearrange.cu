#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/value.cuh"

/// Copies positions along one axis by an axis map; for the gradient, sums all positions that are copies of one.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

/// One thread per unit of the result or, if `push` is set, of the source.
template <class Unit>
__global__ void copy_positions(RearrangeArgs a, std::int64_t inner, std::int64_t units, Unit fill) {
  const auto* from = static_cast<const Unit*>(a.from);
  auto* to = static_cast<Unit*>(a.to);
  each_index(units, [&](std::int64_t u) {
    const std::int64_t row = u / inner, i = u - row * inner, o = row / a.count, s = a.map(row - o * a.count);
    const std::int64_t whole = (o * a.map.extent + s) * inner + i;
    if (!a.push)
      to[u] = s >= 0 ? from[whole] : fill;
    else if (s >= 0)
      to[whole] = from[u];
  });
}

template <class C>
__global__ void sum_positions(RearrangeSumArgs a, const std::int64_t* begin, const std::int64_t* from) {
  each_index(a.outer * a.extent * a.inner, [&](std::int64_t u) {
    const std::int64_t row = u / a.inner, i = u - row * a.inner, o = row / a.extent, s = row - o * a.extent;
    C sum = C(0);
    for (std::int64_t t = begin[s]; t < begin[s + 1]; ++t)
      sum += load_at<C>(a.gy, (o * a.count + from[t]) * a.inner + i);
    store_at(a.gx.data, a.gx.dtype, u, sum);
  });
}

}  // namespace

void run_rearrange(const RearrangeArgs& a) {
  const auto size = static_cast<std::int64_t>(a.element_bytes);
  if (a.outer * a.count * a.inner == 0) return;
  const std::uintptr_t multiples = reinterpret_cast<std::uintptr_t>(a.from) | reinterpret_cast<std::uintptr_t>(a.to) |
                                   static_cast<std::uintptr_t>(a.inner * size);
  with_unit(multiples, [&]<class Unit>(Unit*) {
    unsigned char bytes[16];
    for (std::size_t b = 0; b < sizeof bytes; ++b)
      bytes[b] = static_cast<unsigned char>(a.fill >> (b % a.element_bytes * 8));
    Unit fill;
    memcpy(&fill, bytes, sizeof fill);
    const std::int64_t inner = a.inner * size / static_cast<std::int64_t>(sizeof(Unit));
    const std::int64_t units = a.outer * a.count * inner;
    launch(copy_positions<Unit>, grid_for(ceil_div(units, kThreads)), kThreads, 0, a, inner, units, fill);
  });
}

void run_rearrange_sum(const RearrangeSumArgs& a) {
  const std::int64_t count = a.outer * a.extent * a.inner;
  if (count == 0) return;
  const Buffer<std::int64_t> begin(a.begin, a.extent + 1), from(a.from, a.begin[a.extent]);
  const unsigned grid = grid_for(ceil_div(count, kThreads));
  if (a.gx.dtype == DType::f64)
    launch(sum_positions<double>, grid, kThreads, 0, a, begin.data(), from.data());
  else
    launch(sum_positions<float>, grid, kThreads, 0, a, begin.data(), from.data());
}

}  // namespace binade::cuda
