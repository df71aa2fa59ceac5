#include "binade/cuda/device/attention.cuh"
#include "binade/cuda/device/kernels.cuh"

/// Backward of attention recomputes the probabilities from q, k and the saved log-sum-exp two times: once per tile of
/// queries, for gq, and once per tile of keys, for gk and gv. So one block computes the whole sum of a gradient, in a
/// fixed order, and no two blocks add to the same address.
namespace binade::cuda {
namespace attention {
namespace {

/// Computes deltas (batch, heads, queries) = gy . y, the dot product of each row of gy and y, by one warp per row.
template <class T>
__global__ void __launch_bounds__(kThreads) dot_rows(AttentionBackward g, Compute<T>* deltas) {
  using C = Compute<T>;
  const AttentionArgs& a = g.args;
  const std::int64_t warps = blockDim.x / kWarp, rows = a.batch * a.heads * a.queries;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t row = blockIdx.x * warps + threadIdx.x / kWarp; row < rows; row += gridDim.x * warps) {
    const std::int64_t t = row % a.queries, h = row / a.queries % a.heads, b = row / a.queries / a.heads;
    const Vectors<T> y(g.y, a.queries, b, h), gy(g.gy, a.queries, b, h);
    C sum = 0;
    for (std::int64_t d = lane; d < a.depth; d += kWarp) sum += y.at(t, d, a.depth) * gy.at(t, d, a.depth);
    sum = fold_warp<Adding>(sum);
    if (lane == 0) deltas[row] = sum;
  }
}

/// Returns element d of token t (of `tokens`) and head h of sample b in a gradient.
template <class T>
__device__ __forceinline__ T& element(const AttentionBackward::Gradient& g, std::int64_t tokens, std::int64_t b,
                                      std::int64_t t, std::int64_t h, std::int64_t d) {
  return static_cast<T*>(g.data)[(b * tokens + t) * g.token + h * g.head + d];
}

/// Receives q . k in `p` and gy . v in `gp`, and replaces them by dropout(probability) and the gradient of the logit.
template <class T, class C = Compute<T>>
__device__ __forceinline__ void logit_gradient(const AttentionArgs& a, const C* mask, std::int64_t s, C scale, C lse,
                                               C delta, C factor, C& p, C& gp) {
  C x = p * scale;
  if (mask != nullptr) x += mask[s];
  const C probability = math::exp(x - lse);
  if (a.dropout > 0) {
    gp = rounded<T>(probability * (gp * factor - delta));
    p = rounded<T>(probability * factor);
  } else {
    gp = rounded<T>(probability * (gp - delta));
    p = rounded<T>(probability);
  }
}

/// Computes gq: each block takes 64 queries of a head and iterates over the keys that they attend to.
template <class T, int kColumns>
__global__ void __launch_bounds__(kThreads) query_gradients(AttentionBackward w, const Compute<T>* deltas,
                                                            const std::int64_t* step_offset, std::uint32_t* words) {
  using C = Compute<T>;
  const AttentionArgs& a = w.args;
  C* const stage = static_cast<C*>(dynamic_shared());
  C* const tile = stage + kStage;
  const C scale = static_cast<C>(a.scale);
  const std::int64_t tiles = (a.queries + kTile - 1) / kTile, column_ranges = (a.depth + kColumns - 1) / kColumns;
  AmaxObserver amax(words, a.dtype);
  for (std::int64_t work = blockIdx.x; work < tiles * column_ranges * a.heads * a.batch; work += gridDim.x) {
    const QueryTile own(a, work, tiles, column_ranges);
    const std::int64_t first = own.first, column_range = own.column_range, h = own.head, b = own.sample;
    const Vectors<T> q(a.q, a.queries, b, h), k(a.k, a.keys, b, own.key_head), v(a.v, a.keys, b, own.key_head);
    const Vectors<T> gy(w.gy, a.queries, b, h);
    std::int64_t sees[kSide];
    C lse[kSide], delta[kSide];
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const std::int64_t t = first + own_row() + i, row = (b * a.heads + h) * a.queries + t;
      sees[i] = visible_keys(a, t);
      lse[i] = t < a.queries ? static_cast<const C*>(w.lse)[row] : C(0);
      delta[i] = t < a.queries ? deltas[row] : C(0);
    }
    Results<C, kColumns> results;
    results.clear();

    for (std::int64_t s0 = 0; s0 < own.reach; s0 += kTile) {
      C p[kSide][kSide], gp[kSide][kSide];
      multiply_vectors(q, first, k, s0, a.depth, stage, p);
      multiply_vectors(gy, first, v, s0, a.depth, stage, gp);
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
        const std::int64_t t = first + own_row() + i;
        const C* mask = a.mask_row<C>(b, h, t);
        Dropout<C> dropout(a, step_offset);
#pragma unroll
        for (int j = 0; j < kSide; ++j) {
          const std::int64_t s = s0 + own_column() + j;
          if (s < sees[i]) {
            const C factor = a.dropout > 0 ? dropout.factor(b, h, t, s) : C(1);
            logit_gradient<T>(a, mask, s, scale, lse[i], delta[i], factor, p[i][j], gp[i][j]);
          } else {
            gp[i][j] = 0;
          }
          tile[(own_column() + j) * kPitch + own_row() + i] = gp[i][j];
        }
      }
      results.add(tile, k, s0, column_range * kColumns, a.depth, stage, s0 + kTile > own.all_see,
                  [&](int i, int column) { return s0 + column < sees[i]; });
    }
    results.for_each([&](C& x, int i, std::int64_t column) {
      const std::int64_t t = first + own_row() + i, d = column_range * kColumns + column;
      if (t >= a.queries || d >= a.depth) return;
      const C gradient = x * scale;
      amax.add(gradient);
      element<T>(w.gq, a.queries, b, t, h, d) = store<T>(gradient);
    });
  }
  amax.publish();
}

/// Computes gk and gv: each block takes 64 keys of a key head and iterates over the queries that attend to them, head
/// by head.
template <class T, int kColumns>
__global__ void __launch_bounds__(kThreads) key_gradients(AttentionBackward w, const Compute<T>* deltas,
                                                          const std::int64_t* step_offset, std::uint32_t* words) {
  using C = Compute<T>;
  const AttentionArgs& a = w.args;
  C* const stage = static_cast<C*>(dynamic_shared());
  C* const p_tile = stage + kStage;
  C* const gp_tile = p_tile + kTileSize;
  const C scale = static_cast<C>(a.scale);
  const std::int64_t tiles = (a.keys + kTile - 1) / kTile, column_ranges = (a.depth + kColumns - 1) / kColumns;
  const std::int64_t group = a.heads / a.key_heads;
  AmaxObserver amax(words, a.dtype);
  for (std::int64_t work = blockIdx.x; work < tiles * column_ranges * a.key_heads * a.batch; work += gridDim.x) {
    // In a causal head the most queries attend to the first keys, so the tiles of the first keys come first.
    const std::int64_t first = work % tiles * kTile, column_range = work / tiles % column_ranges;
    const std::int64_t kh = work / tiles / column_ranges % a.key_heads, b = work / tiles / column_ranges / a.key_heads;
    const Vectors<T> k(a.k, a.keys, b, kh), v(a.v, a.keys, b, kh);
    const std::int64_t seen_from = a.causal ? first - a.keys + a.queries : 0;
    const std::int64_t begin = seen_from > 0 ? seen_from / kTile * kTile : 0;
    Results<C, kColumns> gk, gv;
    gk.clear();
    gv.clear();

    for (std::int64_t h = kh * group; h < (kh + 1) * group; ++h) {
      const Vectors<T> q(a.q, a.queries, b, h), gy(w.gy, a.queries, b, h);
      for (std::int64_t t0 = begin; t0 < a.queries; t0 += kTile) {
        C p[kSide][kSide], gp[kSide][kSide];
        multiply_vectors(k, first, q, t0, a.depth, stage, p);
        multiply_vectors(v, first, gy, t0, a.depth, stage, gp);
#pragma unroll
        for (int j = 0; j < kSide; ++j) {
          const std::int64_t t = t0 + own_column() + j, row = (b * a.heads + h) * a.queries + t;
          const std::int64_t sees = visible_keys(a, t);
          const C* mask = a.mask_row<C>(b, h, t);
          const C lse = t < a.queries ? static_cast<const C*>(w.lse)[row] : C(0);
          const C delta = t < a.queries ? deltas[row] : C(0);
          Dropout<C> dropout(a, step_offset);
#pragma unroll
          for (int i = 0; i < kSide; ++i) {
            const std::int64_t s = first + own_row() + i;
            if (s < sees) {
              const C factor = a.dropout > 0 ? dropout.factor(b, h, t, s) : C(1);
              logit_gradient<T>(a, mask, s, scale, lse, delta, factor, p[i][j], gp[i][j]);
            } else {
              p[i][j] = gp[i][j] = 0;
            }
            p_tile[(own_column() + j) * kPitch + own_row() + i] = p[i][j];
            gp_tile[(own_column() + j) * kPitch + own_row() + i] = gp[i][j];
          }
        }
        const bool partial = first + kTile > visible_keys(a, t0) || t0 + kTile > a.queries;
        const auto sees = [&](int i, int column) { return first + own_row() + i < visible_keys(a, t0 + column); };
        if (w.gv.data != nullptr) gv.add(p_tile, gy, t0, column_range * kColumns, a.depth, stage, partial, sees);
        if (w.gk.data != nullptr) gk.add(gp_tile, q, t0, column_range * kColumns, a.depth, stage, partial, sees);
      }
    }
    const auto write = [&](Results<C, kColumns>& results, const AttentionBackward::Gradient& to, C by) {
      if (to.data == nullptr) return;
      results.for_each([&](C& x, int i, std::int64_t column) {
        const std::int64_t s = first + own_row() + i, d = column_range * kColumns + column;
        if (s >= a.keys || d >= a.depth) return;
        const C gradient = x * by;
        amax.add(gradient);
        element<T>(to, a.keys, b, s, kh, d) = store<T>(gradient);
      });
    };
    write(gk, w.gk, scale);
    write(gv, w.gv, C(1));
  }
  amax.publish();
}

template <class T, int kColumns>
void start(const AttentionBackward& w, std::uint32_t* words) {
  using C = Compute<T>;
  const AttentionArgs& a = w.args;
  const std::int64_t rows = a.batch * a.heads * a.queries, column_ranges = ceil_div(a.depth, kColumns);
  const Buffer<C> deltas(rows);
  if (rows > 0) launch(dot_rows<T>, grid_for(ceil_div(rows, kThreads / kWarp)), kThreads, 0, w, deltas.data());
  if (w.gq.data != nullptr && rows > 0)
    launch(query_gradients<T, kColumns>, blocks_for(ceil_div(a.queries, kTile) * column_ranges * a.heads * a.batch),
           kThreads, shared_bytes<C>(1), w, deltas.data(), context().step_offset, words);
  if ((w.gk.data != nullptr || w.gv.data != nullptr) && a.keys > 0)
    launch(key_gradients<T, kColumns>, blocks_for(ceil_div(a.keys, kTile) * column_ranges * a.key_heads * a.batch),
           kThreads, shared_bytes<C>(2), w, deltas.data(), context().step_offset, words);
}

}  // namespace
}  // namespace attention

void own_attention(const AttentionBackward& w, std::uint32_t* words) {
  attention::with_columns(w.args, [&]<class T, int kColumns>() { attention::start<T, kColumns>(w, words); });
}

void run_attention_backward(const AttentionBackward& w) {
  const AttentionArgs& a = w.args;
  if (a.batch * a.key_heads * a.depth == 0) return;
  if (!attention_by_library(w)) own_attention(w, context().amax_words);
}

}  // namespace binade::cuda
