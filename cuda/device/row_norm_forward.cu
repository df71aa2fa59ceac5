#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/rows.cuh"

namespace binade::cuda {
namespace {

/// Normalizes rows. Each group of threads normalizes several rows; the distance between them is the number of groups in
/// the grid.
template <class T, int V, int H>
__global__ void __launch_bounds__(H == 0 ? 1024 : 512) forward_rows(RowNormForward a, int width, std::uint32_t* words) {
  using C = Compute<T>;
  __shared__ C scratch[ThreadGroup<C>::kScratch];
  ThreadGroup<C> group(width, scratch);
  AmaxObserver amax(words, a.dtype);
  const C count = static_cast<C>(a.cols), eps = static_cast<C>(a.eps);
  const bool add = a.residual != nullptr;
  // A row that does not fit in registers is read again; its sum with the residual is read where this thread stored it.
  const void* stored = add ? a.h : a.x;
  const std::int64_t stored_pitch = add ? a.cols : a.x_pitch;
  group.each_row(a.rows, a.cols, [&](std::int64_t row, std::int64_t cols) {
    C h[H > 0 ? H : 1][V];
    const auto again = [&](std::int64_t c, int k) {
      if constexpr (H == 0) load_vector<T>(stored, row * stored_pitch + c, h[k]);
    };

    C mean[1] = {};
    each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
      load_vector<T>(a.x, row * a.x_pitch + c, h[k]);
      if (add) {
        C r[V];
        load_vector<T>(a.residual, row * a.residual_pitch + c, r);
#pragma unroll
        for (int e = 0; e < V; ++e) {
          h[k][e] += r[e];
          amax.add(h[k][e]);
        }
        store_vector<T>(a.h, row * a.cols + c, h[k]);
#pragma unroll
        for (int e = 0; e < V; ++e) h[k][e] = rounded<T>(h[k][e]);  // rounded, as if addition and norm were two ops
      }
#pragma unroll
      for (int e = 0; e < V; ++e) mean[0] += h[k][e];
    });
    if (!a.rms) group.sum(mean);
    mean[0] = a.rms ? C(0) : mean[0] / count;

    // If a value is infinite, all other results are 0, as the formula says. If only the squares of finite values
    // overflow, this must not happen.
    C squares[2] = {}, &infinite = squares[1];
    each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
      again(c, k);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const C d = h[k][e] - mean[0];
        squares[0] += d * d;
        infinite += static_cast<C>(d * C(0) != C(0));
      }
    });
    group.sum(squares);
    const C variance = squares[0] / count;
    const C rstd = infinite > 0 ? C(1) / math::sqrt(variance + eps) : reciprocal_deviation(variance, eps);
    if (group.rank() == 0 && row < a.rows) {
      if (a.mean != nullptr) static_cast<C*>(a.mean)[row] = mean[0];
      if (a.rstd != nullptr) static_cast<C*>(a.rstd)[row] = rstd;
    }

    each_vector<V, H>(group, cols, [&](std::int64_t c, int k) {
      again(c, k);
      C y[V], p[V];
#pragma unroll
      for (int e = 0; e < V; ++e) y[e] = (h[k][e] - mean[0]) * rstd;
      if (a.weight != nullptr) {
        load_vector<C>(a.weight, c, p);
#pragma unroll
        for (int e = 0; e < V; ++e) y[e] *= p[e];
      }
      if (a.bias != nullptr) {
        load_vector<C>(a.bias, c, p);
#pragma unroll
        for (int e = 0; e < V; ++e) y[e] += p[e];
      }
#pragma unroll
      for (int e = 0; e < V; ++e) amax.add(y[e]);
      store_vector<T>(a.y, row * a.cols + c, y);
    });
  });
  amax.publish();
}

template <class T, int V, int H>
void start(const RowNormForward& a, RowGroups groups) {
  launch(forward_rows<T, V, H>, grid_for(ceil_div(a.rows, groups.count()), 64), static_cast<unsigned>(groups.threads),
         0, a, groups.width, context().amax_words);
}

template <class T>
void forward(const RowNormForward& a) {
  constexpr int kHeld = 4;
  if constexpr (!std::is_same_v<T, double>) {
    const bool packed = a.cols % kPack == 0 && packs_rows(a.x, a.dtype, a.x_pitch) &&
                        packs_rows(a.residual, a.dtype, a.residual_pitch) && packs_rows(a.h, a.dtype, a.cols) &&
                        packs_rows(a.y, a.dtype, a.cols) && packs_rows(a.weight, DType::f32, 0) &&
                        packs_rows(a.bias, DType::f32, 0);
    const std::int64_t vectors = a.cols / kPack;
    if (packed && vectors <= kWarp) return start<T, kPack, 1>(a, small_groups(vectors));
    if (packed && vectors <= kWarp * 3) return start<T, kPack, 3>(a, small_groups(vectors));
    if (packed && vectors <= kWarp * kHeld) return start<T, kPack, kHeld>(a, small_groups(vectors));
    if (packed && vectors <= 512 * kHeld) return start<T, kPack, kHeld>(a, block_group(vectors, kHeld));
    if (packed) return start<T, kPack, 0>(a, {1024, 1024});
  }
  start<T, 1, 0>(a, a.cols <= 1024 ? small_groups(a.cols) : block_group(std::min<std::int64_t>(a.cols, 16384), 16));
}

}  // namespace

void run_row_norm_forward(const RowNormForward& call) {
  if (call.rows * call.cols == 0) return;
  with_type(call.dtype, [&]<class T>(TypeTag<T>) { forward<T>(call); });
}

}  // namespace binade::cuda
