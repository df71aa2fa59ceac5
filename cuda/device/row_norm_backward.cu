#include "cuda/device/calls.cuh"
#include "cuda/device/column_fold.cuh"
#include "cuda/device/rows.cuh"
#include "cuda/device/seen.cuh"

namespace binade::cuda {
namespace {

/// Rows are cut into stripes, by sizes alone; a block takes a stripe and leaves its part of gw and gb.
struct Stripes {
  std::int64_t rows = 0, rows_each = 1;
  std::int64_t count() const { return ceil_div(rows, rows_each); }
};

/// Enough stripes to fill any GPU twice over, of enough rows that their parts are little beside the rows themselves.
Stripes stripes_of(std::int64_t rows, std::int64_t least) { return {rows, std::max(least, ceil_div(rows, 512))}; }

constexpr int kSharedCols = 1024;

/// The teams' sums in the order of the teams, through shared memory, to the stripe's row of parts (2, cols).
template <class C, int V, int H>
__device__ void leave_parts(const Team<C>& team, std::int64_t cols, const C (&gw)[H][V], const C (&gb)[H][V], C* to) {
  if (team.count() == 1) {
    each_piece<V, H>(team, cols, [&](std::int64_t c, int k) {
      store_piece<C>(to, c, gw[k]);
      store_piece<C>(to, cols + c, gb[k]);
    });
    return;
  }
  __shared__ C sums[2 * kSharedCols];
  for (int turn = 0; turn < team.count(); ++turn) {
    if (team.index() == turn)
      each_piece<V, H>(team, cols, [&](std::int64_t c, int k) {
#pragma unroll
        for (int e = 0; e < V; ++e) {
          sums[c + e] = (turn > 0 ? sums[c + e] : C(0)) + gw[k][e];
          sums[kSharedCols + c + e] = (turn > 0 ? sums[kSharedCols + c + e] : C(0)) + gb[k][e];
        }
      });
    __syncthreads();
  }
  for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
    to[c] = sums[c];
    to[cols + c] = sums[kSharedCols + c];
  }
}

/// gx of a stripe's rows; with H > 0 and `parts` also the stripe's sums over its rows, which each thread keeps for its
/// own columns from row to row.
template <class T, int V, int H>
__global__ void __launch_bounds__(H == 0   ? 1024
                                  : H == 2 ? 512
                                           : 128)
    backward_rows(cpu::RowNormBackward a, Stripes stripes, int width, Computed<T>* parts, std::uint32_t* words) {
  using C = Computed<T>;
  constexpr int kKept = H > 0 ? H : 1;
  __shared__ C scratch[Team<C>::kScratch];
  Team<C> team(width, scratch);
  Seen seen(words, a.dtype);
  const std::int64_t begin = blockIdx.x * stripes.rows_each;
  const std::int64_t end = begin + stripes.rows_each < a.rows ? begin + stripes.rows_each : a.rows;
  C gw[kKept][V] = {}, gb[kKept][V] = {};
  for (std::int64_t first = begin; first < end; first += team.count()) {
    const std::int64_t row = first + team.index();
    const bool live = row < end;
    const std::int64_t cols = live ? a.cols : 0;  // a team without a row still sums with the others
    const C mean = live && a.mean != nullptr ? static_cast<const C*>(a.mean)[row] : C(0);
    const C rstd = live ? static_cast<const C*>(a.rstd)[row] : C(0);
    C xhat[kKept][V], g[kKept][V];
    const auto read = [&](std::int64_t c, int k) {
      load_piece<T>(a.h, row * a.h_pitch + c, xhat[k]);
      load_piece<T>(a.gy, row * a.cols + c, g[k]);
#pragma unroll
      for (int e = 0; e < V; ++e) xhat[k][e] = (xhat[k][e] - mean) * rstd;
      if constexpr (H > 0)
#pragma unroll
        for (int e = 0; e < V; ++e) {
          gw[k][e] += g[k][e] * xhat[k][e];
          gb[k][e] += g[k][e];
        }
      if (a.weight == nullptr) return;
      C w[V];
      load_piece<C>(a.weight, c, w);
#pragma unroll
      for (int e = 0; e < V; ++e) g[k][e] *= w[e];
    };

    C sums[2] = {};  // of g, and of g xhat
    each_piece<V, H>(team, cols, [&](std::int64_t c, int k) {
      read(c, k);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        sums[0] += g[k][e];
        sums[1] += g[k][e] * xhat[k][e];
      }
    });
    team.sum(sums);
    if (a.gx == nullptr) continue;
    const C mean_g = a.rms ? C(0) : sums[0] / static_cast<C>(a.cols), mean_gx = sums[1] / static_cast<C>(a.cols);
    each_piece<V, H>(team, cols, [&](std::int64_t c, int k) {
      if constexpr (H == 0) read(c, k);
      C gx[V], gh[V];
#pragma unroll
      for (int e = 0; e < V; ++e) gx[e] = (g[k][e] - mean_g - xhat[k][e] * mean_gx) * rstd;
      if (a.gh != nullptr) {
        load_piece<T>(a.gh, row * a.cols + c, gh);
#pragma unroll
        for (int e = 0; e < V; ++e) gx[e] += gh[e];
      }
#pragma unroll
      for (int e = 0; e < V; ++e) seen.add(gx[e]);
      store_piece<T>(a.gx, row * a.cols + c, gx);
    });
  }
  if constexpr (H > 0)
    if (parts != nullptr) leave_parts<C, V, H>(team, a.cols, gw, gb, parts + blockIdx.x * 2 * a.cols);
  seen.publish();
}

/// The parts of gw and gb of one stripe, 32 columns a block: for rows that backward_rows cannot sum as it goes.
template <class T>
__global__ void sum_columns(cpu::RowNormBackward a, Stripes stripes, Computed<T>* parts) {
  using C = Computed<T>;
  const std::int64_t c = blockIdx.x * static_cast<std::int64_t>(kFoldColumns) + threadIdx.x;
  const std::int64_t begin = blockIdx.y * stripes.rows_each;
  const std::int64_t end = begin + stripes.rows_each < a.rows ? begin + stripes.rows_each : a.rows;
  C gw{}, gb{};
  if (c < a.cols)
    for (std::int64_t row = begin + threadIdx.y; row < end; row += kFoldRows) {
      const C mean = a.mean != nullptr ? static_cast<const C*>(a.mean)[row] : C(0);
      const C rstd = static_cast<const C*>(a.rstd)[row];
      const C dy = load_at<C>(a.gy, kDTypeOf<T>, row * a.cols + c);
      gw += dy * ((load_at<C>(a.h, kDTypeOf<T>, row * a.h_pitch + c) - mean) * rstd);
      gb += dy;
    }
  gw = fold(gw);
  gb = fold(gb);
  if (c >= a.cols || threadIdx.y != 0) return;
  C* to = parts + blockIdx.y * 2 * a.cols;
  to[c] = gw;
  to[a.cols + c] = gb;
}

/// gw and gb from the parts of all stripes.
template <class C>
__global__ void combine(const C* parts, std::int64_t stripes, std::int64_t cols, C* gw, C* gb) {
  const std::int64_t c = blockIdx.x * static_cast<std::int64_t>(kFoldColumns) + threadIdx.x;
  C sum{};
  if (c < 2 * cols)
    for (std::int64_t s = threadIdx.y; s < stripes; s += kFoldRows) sum += parts[s * 2 * cols + c];
  sum = fold(sum);
  if (c >= 2 * cols || threadIdx.y != 0) return;
  C* to = c < cols ? gw : gb;
  if (to != nullptr) to[c < cols ? c : c - cols] = sum;
}

template <class T, int V, int H>
void start(const cpu::RowNormBackward& a, Stripes stripes, RowTeams teams, Computed<T>* parts) {
  if (stripes.count() == 0) return;
  launch(backward_rows<T, V, H>, static_cast<unsigned>(stripes.count()), static_cast<unsigned>(teams.threads), 0, a,
         stripes, teams.width, parts, context().seen);
}

template <class T>
void backward(const cpu::RowNormBackward& a) {
  using C = Computed<T>;
  constexpr std::int64_t kHeld = 4, kMostFused = 512 * 2;
  constexpr bool kPacks = !std::is_same_v<T, double>;
  const std::int64_t pieces = a.cols / kPack;
  const bool packed = kPacks && a.cols % kPack == 0 && packs_rows(a.h, a.dtype, a.h_pitch) &&
                      packs_rows(a.gy, a.dtype, a.cols) && packs_rows(a.gh, a.dtype, a.cols) &&
                      packs_rows(a.gx, a.dtype, a.cols) && packs_rows(a.weight, DType::f32, 0);
  const bool sums = a.gw != nullptr || a.gb != nullptr, fused = packed && pieces <= kMostFused;
  const RowTeams teams = !packed                   ? a.cols <= 1024 ? small_teams(a.cols) : RowTeams{512, 512}
                                           : pieces <= kWarp * kHeld ? small_teams(pieces)
                         : fused                   ? block_team(pieces, 2)
                                                   : RowTeams{1024, 1024};
  const Stripes stripes = stripes_of(a.rows, std::max(8, 4 * teams.count()));
  const Buffer<C> parts(sums ? stripes.count() * 2 * a.cols : 0);
  if constexpr (kPacks) {
    if (packed && pieces <= kWarp)
      start<T, kPack, 1>(a, stripes, teams, parts.data());
    else if (packed && pieces <= kWarp * kHeld)
      start<T, kPack, kHeld>(a, stripes, teams, parts.data());
    else if (fused)
      start<T, kPack, 2>(a, stripes, teams, parts.data());
    else if (packed && a.gx != nullptr)
      start<T, kPack, 0>(a, stripes, teams, nullptr);
  }
  if (!packed && a.gx != nullptr) start<T, 1, 0>(a, stripes, teams, nullptr);
  if (!sums) return;
  if (!fused && stripes.count() > 0)
    launch(sum_columns<T>, dim3(fold_grid(a.cols), static_cast<unsigned>(stripes.count())),
           dim3(kFoldColumns, kFoldRows), 0, a, stripes, parts.data());
  launch(combine<C>, fold_grid(2 * a.cols), dim3(kFoldColumns, kFoldRows), 0, parts.data(), stripes.count(), a.cols,
         static_cast<C*>(a.gw), static_cast<C*>(a.gb));
}

}  // namespace

void run_row_norm_backward(const RowNormBackwardCall& call) {
  if (call.cols == 0) return;
  with_type(call.dtype, [&]<class T>(TypeTag<T>) { backward<T>(call); });
}

}  // namespace binade::cuda
