#include "binade/cuda/device/products.cuh"

/// Computes results from sums that were computed in chunks of k, or by a library.
namespace binade::cuda {
namespace {

/// The coordinates of element `i` of (batch, m, n).
struct Position {
  std::int64_t product, row, column;
  __device__ Position(std::int64_t i, std::int64_t m, std::int64_t n)
      : product(i / n / m), row(i / n % m), column(i % n) {}
};

template <class C>
__global__ void finish_each(Finish f, Sums sums, std::int64_t batch, std::int64_t m, std::int64_t n) {
  AmaxObserver amax(f.words, f.y.dtype);
  each_index(batch * m * n, [&](std::int64_t i) {
    const Position p(i, m, n);
    const std::int64_t from = sums.batch.at(p.product) + p.row * sums.row + p.column;
    C sum = load_at<C>(sums.from, from);
    for (std::int64_t chunk = 1; chunk < sums.chunks; ++chunk) sum += load_at<C>(sums.from, from + chunk * sums.chunk);
    finish_one<C>(f, f.batch.at(p.product) + p.row * f.row + p.column, p.column, sum, amax);
  });
  amax.publish();
}

/// Like finish_each() for a single product, in packs of 8 columns. `I` is the type that counts packs. It has 32 bits if
/// they suffice, because a 64-bit division costs more than the other work for a pack.
template <class I>
__global__ void finish_packs(Finish f, Sums sums, I m, I packs) {
  AmaxObserver amax(f.words, f.y.dtype);
  each_index(m * packs, [&](I i) {
    const I in_rows = i / packs;
    const auto row = static_cast<std::int64_t>(in_rows);
    const std::int64_t column = static_cast<std::int64_t>(i - in_rows * packs) * kPack;
    const std::int64_t at = row * f.row + column;
    float x[kPack], more[kPack];
    load_pack(sums.from.data, sums.from.dtype, row * sums.row + column, x);
    for (std::int64_t chunk = 1; chunk < sums.chunks; ++chunk) {
      load_pack(sums.from.data, sums.from.dtype, row * sums.row + column + chunk * sums.chunk, more);
#pragma unroll
      for (int k = 0; k < kPack; ++k) x[k] += more[k];
    }
    if (f.bias.data != nullptr) {
      load_pack(f.bias.data, f.bias.dtype, column, more);
#pragma unroll
      for (int k = 0; k < kPack; ++k) x[k] += more[k];
    }
    const bool activates_rounded = activates_rounded_sum(f);
    if (f.z != nullptr || f.sums_are_kept || activates_rounded) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) amax.add(x[k]);
    }
    if (activates_rounded) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) x[k] = as_z(f.y.dtype, x[k]);
    }
    if (f.z != nullptr) store_pack(f.z, f.y.dtype, at, x);
    if (f.accumulate) {
      load_pack(f.y.data, f.y.dtype, at, more);
#pragma unroll
      for (int k = 0; k < kPack; ++k) x[k] += more[k];
    }
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      x[k] = activated(f.activation, x[k]);
      if (!activates_rounded) amax.add(x[k]);
    }
    store_pack(f.y.data, f.y.dtype, at, x);
  });
  amax.publish();
}

__global__ void observe_each(Finish f, std::int64_t batch, std::int64_t m, std::int64_t n) {
  AmaxObserver amax(f.words, f.y.dtype);
  each_index(batch * m * n, [&](std::int64_t i) {
    const Position p(i, m, n);
    amax.add(load_at<float>(f.y.data, f.y.dtype, f.batch.at(p.product) + p.row * f.row + p.column));
  });
  amax.publish();
}

__global__ void observe_packs(Finish f, std::int64_t count) {
  AmaxObserver amax(f.words, f.y.dtype);
  each_index(count / kPack, [&](std::int64_t i) {
    float x[kPack];
    load_pack(f.y.data, f.y.dtype, i * kPack, x);
#pragma unroll
    for (int k = 0; k < kPack; ++k) amax.add(x[k]);
  });
  amax.publish();
}

constexpr int kThreads = 256;

}  // namespace

void finish_sums(const Finish& f, const Sums& sums, std::int64_t batch, std::int64_t m, std::int64_t n) {
  const std::int64_t count = batch * m * n;
  if (count == 0) return;
  const bool packed = batch == 1 && n % kPack == 0 && f.row % kPack == 0 && sums.row % kPack == 0 &&
                      sums.chunk % kPack == 0 && packs(f.y.data, f.y.dtype) && packs(sums.from.data, sums.from.dtype) &&
                      (f.z == nullptr || packs(f.z, f.y.dtype)) &&
                      (f.bias.data == nullptr || packs(f.bias.data, f.bias.dtype));
  const unsigned grid = grid_for(ceil_div(count, kThreads * kPack));
  if (packed && count / kPack < std::int64_t{1} << 31)  // even the last index plus the grid's stride fits in 32 bits
    launch(finish_packs<std::uint32_t>, grid, kThreads, 0, f, sums, static_cast<std::uint32_t>(m),
           static_cast<std::uint32_t>(n / kPack));
  else if (packed)
    launch(finish_packs<std::int64_t>, grid, kThreads, 0, f, sums, m, n / kPack);
  else if (f.y.dtype == DType::f64)
    launch(finish_each<double>, grid_for(ceil_div(count, kThreads)), kThreads, 0, f, sums, batch, m, n);
  else
    launch(finish_each<float>, grid_for(ceil_div(count, kThreads)), kThreads, 0, f, sums, batch, m, n);
}

void observe_products(const Finish& f, std::int64_t batch, std::int64_t m, std::int64_t n) {
  const std::int64_t count = batch * m * n;
  if (count == 0 || f.words == nullptr || !context().observes_libraries || f.y.dtype == DType::f64) return;
  const bool flat = f.row == n && f.batch.offsets == nullptr && (batch == 1 || f.batch.stride == m * n);
  if (flat && count % kPack == 0 && packs(f.y.data, f.y.dtype))
    launch(observe_packs, grid_for(ceil_div(count, kThreads * kPack)), kThreads, 0, f, count);
  else
    launch(observe_each, grid_for(ceil_div(count, kThreads)), kThreads, 0, f, batch, m, n);
}

}  // namespace binade::cuda
