#pragma once

#include "binade/core/kernels/attention.h"
#include "binade/core/math.h"
#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/live_stream.cuh"
#include "binade/cuda/device/value.cuh"

namespace binade::cuda {

/// Compute attention with Binade's kernels, for any sizes. Largest magnitudes of results are recorded in `words`,
/// unless it is null. REQUIRES that the result is not empty.
void own_attention(const AttentionForward& f, std::uint32_t* words);
void own_attention(const AttentionBackward& w, std::uint32_t* words);
/// Compute attention with a GPU library, and observe the results. Return false, and do nothing, if no library can
/// compute it.
bool attention_by_library(const AttentionForward& f);
bool attention_by_library(const AttentionBackward& b);

}  // namespace binade::cuda

/// Attention over tiles of 64 queries and 64 keys (Dao et al., "FlashAttention", NeurIPS 2022); logits and
/// probabilities never reach memory. Shared by forward and backward. A block of 16 x 16 threads computes one tile at a
/// time, each thread 4 rows and 4 columns of it, and multiplies the tile by the vectors that belong to its columns. The
/// rows of the tile are the rows of the block's results.
namespace binade::cuda::attention {

constexpr int kTile = 64;                    // rows and columns of a tile
constexpr int kSide = 4;                     // rows and columns of a tile that one thread computes
constexpr int kAcross = kTile / kSide;       // threads along a row of a tile
constexpr int kThreads = kAcross * kAcross;  // threads of a block
constexpr int kDepth = 16;         // terms of a dot product, or columns of a tile, that are in shared memory at a time
constexpr int kPitch = kTile + 4;  // values between rows in shared memory; keeps 16-byte reads aligned
constexpr int kStage = 2 * kDepth * kPitch;  // values of shared memory for the operands of one step
constexpr int kTileSize = kTile * kPitch;    // values of shared memory for a tile

/// Blocks per multiprocessor: 2 if their results fit in its registers together.
template <class T, int kColumns>
constexpr int kBlocks = std::is_same_v<T, float>&& kColumns == kTile ? 2 : 1;

/// Bytes of shared memory of a block with `tiles` tiles.
template <class C>
constexpr std::size_t shared_bytes(int tiles) {
  return static_cast<std::size_t>(kStage + tiles * kTileSize) * sizeof(C);
}

/// Return this thread's first row and first column in a tile.
__device__ __forceinline__ int own_row() { return static_cast<int>(threadIdx.x) / kAcross * kSide; }
__device__ __forceinline__ int own_column() { return static_cast<int>(threadIdx.x) % kAcross * kSide; }

/// The query, key, value or gradient vectors of one head of one sample.
template <class T>
struct Vectors {
  const T* data;
  std::int64_t pitch, count;

  __device__ Vectors(const AttentionArgs::Tokens& x, std::int64_t tokens, std::int64_t b, std::int64_t head)
      : data(static_cast<const T*>(x.data) + b * tokens * x.token + head * x.head), pitch(x.token), count(tokens) {}
  /// Returns element d of vector i, or 0 beyond the last vector or element.
  __device__ Compute<T> at(std::int64_t i, std::int64_t d, std::int64_t depth) const {
    return i < count && d < depth ? load(data[i * pitch + d]) : Compute<T>(0);
  }
};

/// Returns the number of keys that query t attends to; 0 if there is no such query.
__device__ __forceinline__ std::int64_t visible_keys(const AttentionArgs& a, std::int64_t t) {
  return t < a.queries ? a.visible(t) : 0;
}

/// The part of a head that one block computes: 64 queries, and for them one range of columns of the results.
struct QueryTile {
  std::int64_t first, last;   ///< the queries [first, last)
  std::int64_t column_range;  ///< index of the range of columns
  std::int64_t head, key_head, sample;
  std::int64_t reach;    ///< number of keys that the last query attends to
  std::int64_t all_see;  ///< number of keys that all queries attend to

  /// Selects work item number `work` of the tiles x column ranges x heads x samples. The last queries come first,
  /// because in a causal head they attend to the most keys.
  __device__ QueryTile(const AttentionArgs& a, std::int64_t work, std::int64_t tiles, std::int64_t column_ranges)
      : first((tiles - 1 - work % tiles) * kTile),
        last(first + kTile < a.queries ? first + kTile : a.queries),
        column_range(work / tiles % column_ranges),
        head(work / tiles / column_ranges % a.heads),
        key_head(head / (a.heads / a.key_heads)),
        sample(work / tiles / column_ranges / a.heads),
        reach(visible_keys(a, last - 1)),
        all_see(visible_keys(a, first + kTile - 1 < last ? first : a.queries)) {}
};

/// sums = x y transposed, for a tile whose rows are the vectors of x from first_x on, and whose columns are the vectors
/// of y from first_y on.
template <class T, class C = Compute<T>>
__device__ __forceinline__ void multiply_vectors(const Vectors<T>& x, std::int64_t first_x, const Vectors<T>& y,
                                                 std::int64_t first_y, std::int64_t depth, C* stage,
                                                 C (&sums)[kSide][kSide]) {
  C* const x_stage = stage;
  C* const y_stage = stage + kDepth * kPitch;
#pragma unroll
  for (int i = 0; i < kSide; ++i) {
#pragma unroll
    for (int j = 0; j < kSide; ++j) sums[i][j] = 0;
  }
  for (std::int64_t d0 = 0; d0 < depth; d0 += kDepth) {
    __syncthreads();
#pragma unroll
    for (int l = 0; l < kTile * kDepth / kThreads; ++l) {
      const int i = l * kThreads + static_cast<int>(threadIdx.x);
      const int line = i / kDepth, d = i % kDepth;
      x_stage[d * kPitch + line] = x.at(first_x + line, d0 + d, depth);
      y_stage[d * kPitch + line] = y.at(first_y + line, d0 + d, depth);
    }
    __syncthreads();
#pragma unroll 4
    for (int d = 0; d < kDepth; ++d) {
      const auto& a = *reinterpret_cast<const Quad<C>*>(x_stage + d * kPitch + own_row());
      const auto& b = *reinterpret_cast<const Quad<C>*>(y_stage + d * kPitch + own_column());
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) sums[i][j] += a.value[i] * b.value[j];
      }
    }
  }
}

/// The results of one thread: 4 rows, and kColumns / 16 of the block's columns, namely columns own_column() + 64 g + 0
/// … 3 for each g < kGroups.
template <class C, int kColumns>
struct Results {
  static constexpr int kGroups = kColumns / kTile;
  C value[kSide][kGroups][kSide];

  /// Sets all results to 0.
  __device__ void clear() {
    for_each([](C& x, int, std::int64_t) { x = 0; });
  }
  /// Calls f(value, index of the row among the thread's four, column among the block's columns).
  template <class F>
  __device__ __forceinline__ void for_each(F&& f) {
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) f(value[i][g][j], i, own_column() + g * kTile + j);
      }
    }
  }

  /// Adds the tile times the vectors of y that belong to its columns; element (row, column) of the tile is at [column *
  /// kPitch + row]. `partial`: some rows do not attend to all columns, and sees(i, column) is true if row i of the
  /// thread's four attends to the column. All other elements are skipped, because 0 times a value that is not finite is
  /// NaN.
  template <class T, class Sees>
  __device__ __forceinline__ void add(const C* tile, const Vectors<T>& y, std::int64_t first_y,
                                      std::int64_t first_column, std::int64_t depth, C* stage, bool partial,
                                      Sees&& sees) {
    for (int c0 = 0; c0 < kTile && first_y + c0 < y.count; c0 += kDepth) {
      __syncthreads();
#pragma unroll
      for (int l = 0; l < kDepth * kColumns / kThreads; ++l) {
        const int i = l * kThreads + static_cast<int>(threadIdx.x);
        stage[i] = y.at(first_y + c0 + i / kColumns, first_column + i % kColumns, depth);
      }
      __syncthreads();
      if (partial)
        step<true>(tile, c0, stage, sees);
      else
        step<false>(tile, c0, stage, sees);
    }
  }

 private:
  template <bool kPartial, class Sees>
  __device__ __forceinline__ void step(const C* tile, int c0, const C* stage, Sees&& sees) {
#pragma unroll 4
    for (int c = 0; c < kDepth; ++c) {
      const auto& p = *reinterpret_cast<const Quad<C>*>(tile + (c0 + c) * kPitch + own_row());
      bool reads[kSide];
#pragma unroll
      for (int i = 0; i < kSide; ++i) reads[i] = !kPartial || sees(i, c0 + c);
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const auto& v = *reinterpret_cast<const Quad<C>*>(stage + c * kColumns + own_column() + g * kTile);
#pragma unroll
        for (int i = 0; i < kSide; ++i) {
#pragma unroll
          for (int j = 0; j < kSide; ++j) {
            const C sum = value[i][g][j] + p.value[i] * v.value[j];
            value[i][g][j] = reads[i] ? sum : value[i][g][j];
          }
        }
      }
    }
  }
};

/// Computes dropout factors of elements that are requested in ascending order, so that four of them share a call of
/// Philox.
template <class C>
class Dropout {
 public:
  __device__ Dropout(const AttentionArgs& a, const std::int64_t* step_offset)
      : a_(a), stream_(live_stream(a.rng, step_offset)), keep_(C(1) / (C(1) - static_cast<C>(a.dropout))) {}

  /// Returns 0 or 1 / (1 - dropout) for sample b, head h, query t and key s.
  __device__ C factor(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) {
    const auto i = static_cast<std::uint64_t>(((b * a_.heads + h) * a_.queries + t) * a_.keys + s);
    if (i / 4 != block_) {
      block_ = i / 4;
      words_ = stream_.block(block_);
    }
    const int w = static_cast<int>(i % 4);
    const std::uint32_t word = w < 2 ? (w == 0 ? words_[0] : words_[1]) : (w == 2 ? words_[2] : words_[3]);
    return static_cast<float>(word >> 8) * 0x1p-24f >= a_.dropout ? keep_ : C(0);
  }

 private:
  const AttentionArgs& a_;
  RandomStream stream_;
  C keep_;  // factor of a probability that is kept
  std::uint64_t block_ = ~std::uint64_t{0};
  std::array<std::uint32_t, 4> words_{};
};

/// Returns x rounded to T, as a Tensor Core would read it.
template <class T>
__device__ __forceinline__ Compute<T> rounded(Compute<T> x) {
  return load(store<T>(x));
}

/// Combines values by f over the 16 threads that share a row, in a fixed tree.
template <class C, class F>
__device__ __forceinline__ C fold_row(C x, F&& f) {
#pragma unroll
  for (int distance = kAcross / 2; distance > 0; distance /= 2) x = f(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}

/// Calls f.operator()<T, kColumns>() for the dtype and the depth of `a`.
template <class F>
void with_columns(const AttentionArgs& a, F&& f) {
  const auto by_depth = [&]<class T>(TypeTag<T>) {
    a.depth <= kTile ? f.template operator()<T, kTile>() : f.template operator()<T, 2 * kTile>();
  };
  switch (a.dtype) {
    case DType::f64: return f.template operator()<double, kTile>();
    case DType::f16: return by_depth(TypeTag<float16>{});
    case DType::bf16: return by_depth(TypeTag<bfloat16>{});
    default: return by_depth(TypeTag<float>{});
  }
}

}  // namespace binade::cuda::attention
