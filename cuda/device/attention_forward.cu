#include <limits>

#include "binade/cuda/device/attention.cuh"
#include "binade/cuda/device/kernels.cuh"

namespace binade::cuda {
namespace attention {
namespace {

/// The running softmax of one row: its sum of exponentials relative to the largest logit so far.
template <class C>
struct Row {
  static constexpr C kLowest = -std::numeric_limits<C>::infinity();
  C largest = kLowest, sum = 0;

  __device__ static C shift_of(C largest) { return largest == kLowest ? C(0) : largest; }
};

/// Each block takes 64 queries of a head and iterates over the keys that they attend to.
template <class T, int kColumns>
__global__ void __launch_bounds__(kThreads, kBlocks<T, kColumns>)
    attend(AttentionForward f, const std::int64_t* step_offset, std::uint32_t* words) {
  using C = Compute<T>;
  const AttentionArgs& a = f.args;
  C* const stage = static_cast<C*>(dynamic_shared());
  C* const tile = stage + kStage;
  const C scale = static_cast<C>(a.scale);
  const std::int64_t tiles = (a.queries + kTile - 1) / kTile, column_ranges = (a.depth + kColumns - 1) / kColumns;
  AmaxObserver amax(words, a.dtype);
  for (std::int64_t work = blockIdx.x; work < tiles * column_ranges * a.heads * a.batch; work += gridDim.x) {
    const QueryTile own(a, work, tiles, column_ranges);
    const std::int64_t first = own.first, column_range = own.column_range, h = own.head, b = own.sample;
    const Vectors<T> q(a.q, a.queries, b, h), k(a.k, a.keys, b, own.key_head), v(a.v, a.keys, b, own.key_head);
    Row<C> rows[kSide];
    unsigned open = 0;  // bit i: row i attends to a key that the mask does not hide
    Results<C, kColumns> results;
    results.clear();

    for (std::int64_t s0 = 0; s0 < own.reach; s0 += kTile) {
      C p[kSide][kSide];
      multiply_vectors(q, first, k, s0, a.depth, stage, p);
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
        const std::int64_t t = first + own_row() + i;
        const std::int64_t sees = visible_keys(a, t);
        const C* mask = a.mask_row<C>(b, h, t);
        Row<C>& row = rows[i];
        C largest = row.largest;
#pragma unroll
        for (int j = 0; j < kSide; ++j) {
          const std::int64_t s = s0 + own_column() + j;
          C x = p[i][j] * scale;
          if (s < sees) {
            const C added = mask != nullptr ? mask[s] : C(0);
            if (mask != nullptr) x += added;
            if (added != -std::numeric_limits<C>::infinity()) open |= 1u << i;
          } else {
            x = Row<C>::kLowest;
          }
          largest = x > largest ? x : largest;  // a NaN is not taken as the maximum; its exponential makes the sum NaN
          p[i][j] = x;
        }
        largest = fold_row(largest, [](C x, C y) { return y > x ? y : x; });
        const C shift = Row<C>::shift_of(largest), factor = math::exp(row.largest - shift);
        C sum = 0;
        Dropout<C> dropout(a, step_offset);
#pragma unroll
        for (int j = 0; j < kSide; ++j) {
          const std::int64_t s = s0 + own_column() + j;
          C x = s < sees ? math::exp(p[i][j] - shift) : C(0);
          sum += x;
          if (a.dropout > 0 && s < sees) x *= dropout.factor(b, h, t, s);
          tile[(own_column() + j) * kPitch + own_row() + i] = rounded<T>(x);
        }
        row.largest = largest;
        row.sum = row.sum * factor + fold_row(sum, [](C x, C y) { return x + y; });
#pragma unroll
        for (int c = 0; c < Results<C, kColumns>::kGroups; ++c) {
#pragma unroll
          for (int j = 0; j < kSide; ++j) results.value[i][c][j] *= factor;
        }
      }
      results.add(tile, v, s0, column_range * kColumns, a.depth, stage, s0 + kTile > own.all_see,
                  [&](int i, int column) { return s0 + column < visible_keys(a, first + own_row() + i); });
    }

    open = fold_row(open, [](unsigned x, unsigned y) { return x | y; });
    C inverse[kSide];
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const std::int64_t t = first + own_row() + i;
      // If all logits of a row are -inf although the mask leaves a key visible, the result is 0 / 0.
      const C sum = (open >> i & 1) != 0 && rows[i].largest == Row<C>::kLowest ? std::numeric_limits<C>::quiet_NaN()
                                                                               : rows[i].sum;
      inverse[i] = sum == C(0) ? C(0) : C(1) / sum;
      const C lse = sum == C(0) ? std::numeric_limits<C>::infinity()
                                : Row<C>::shift_of(rows[i].largest) + math::log(sum);
      if (f.lse != nullptr && column_range == 0 && own_column() == 0 && t < a.queries)
        static_cast<C*>(f.lse)[(b * a.heads + h) * a.queries + t] = lse;
    }
    results.for_each([&](C& x, int i, std::int64_t column) {
      const std::int64_t t = first + own_row() + i, d = column_range * kColumns + column;
      if (t >= a.queries || d >= a.depth) return;
      const C y = x * inverse[i];
      amax.add(y);
      static_cast<T*>(f.y)[(b * a.queries + t) * f.y_token + h * f.y_head + d] = store<T>(y);
    });
  }
  amax.publish();
}

template <class T, int kColumns>
void start(const AttentionForward& f, std::uint32_t* words) {
  const AttentionArgs& a = f.args;
  const std::int64_t work = ceil_div(a.queries, kTile) * ceil_div(a.depth, kColumns) * a.heads * a.batch;
  // One block per work item, because the work of a causal head differs from tile to tile, and the device starts a new
  // block whenever one ends.
  launch(attend<T, kColumns>, blocks_for(work), kThreads, shared_bytes<Compute<T>>(1), f, context().step_offset, words);
}

}  // namespace
}  // namespace attention

void own_attention(const AttentionForward& f, std::uint32_t* words) {
  attention::with_columns(f.args, [&]<class T, int kColumns>() { attention::start<T, kColumns>(f, words); });
}

void run_attention_forward(const AttentionForward& f) {
  const AttentionArgs& a = f.args;
  if (a.batch * a.queries * a.heads * a.depth == 0) return;
  if (!attention_by_library(f)) own_attention(f, context().amax_words);
}

}  // namespace binade::cuda
