#include "binade/core/float8.h"
#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/kernels.cuh"
#include "binade/cuda/device/value.cuh"

/// Rounding of the operands of 8-bit products (core/ops/fp8.h). The scale never leaves the device: every thread
/// computes it from the largest magnitudes of the last 16 steps. A maximum is the same in any order, so blocks combine
/// theirs by atomicMax, and the result has the same bits in every run.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

/// A tensor x as a matrix whose rows are `pitch` elements apart. Element i is in row i / cols.
struct Rows {
  const bfloat16* data = nullptr;
  std::int64_t count = 0, cols = 0, pitch = 0;
  __device__ std::int64_t offset(std::int64_t i) const { return cols == pitch ? i : i / cols * pitch + i % cols; }
};

__device__ __forceinline__ void keep_finite(float x, std::uint32_t& largest) {
  const std::uint32_t a = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
  if (a < 0x7f800000u && a > largest) largest = a;
}

/// Raises `word` to the largest value of the block, unless `word` is null. Every thread of the block must call it.
__device__ __forceinline__ void publish(std::uint32_t largest, std::uint32_t* word) {
  if (word == nullptr) return;
  largest = fold_warp<LargerWord>(largest);
  if (threadIdx.x % kWarp == 0 && largest > *static_cast<volatile std::uint32_t*>(word)) atomicMax(word, largest);
}

/// Calls f(values, i) for this thread's elements of x: 8 at a time if kPacked, otherwise one.
template <bool kPacked, class F>
__device__ __forceinline__ void each(const Rows& x, F&& f) {
  constexpr int kStep = kPacked ? kPack : 1;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = (blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x) * kStep; i < x.count;
       i += threads * kStep) {
    float values[kStep];
    if constexpr (kPacked)
      load_pack(x.data, DType::bf16, x.offset(i), values);
    else
      values[0] = widened(x.data[x.offset(i)]);
    f(values, i);
  }
}

/// Sets `own` to the largest magnitude of x, if the history contains no magnitude.
template <bool kPacked>
__global__ void __launch_bounds__(kThreads) measure(Rows x, const float* history, std::uint32_t* own) {
  if (largest_in(history) > 0) return;
  std::uint32_t largest = 0;
  each<kPacked>(x, [&](const auto& values, std::int64_t) {
    for (const float value : values) keep_finite(value, largest);
  });
  publish(largest, own);
}

template <bool kPacked, Float8 kFormat>
__global__ void __launch_bounds__(kThreads)
    round_rows(Rows x, bfloat16* y, const float* history, const std::uint32_t* own, std::uint32_t* record) {
  const float past = largest_in(history);
  const int exponent = scale_exponent(past > 0 ? past : std::bit_cast<float>(*own), kFormat);
  std::uint32_t largest = 0;
  each<kPacked>(x, [&](auto& values, std::int64_t i) {
    for (float& value : values) {
      keep_finite(value, largest);
      value = through_float8(value, exponent, kFormat);
    }
    if constexpr (kPacked)
      store_pack(y, DType::bf16, i, values);
    else
      y[i] = narrowed<bfloat16>(values[0]);
  });
  publish(largest, record);
}

__global__ void begin_steps(float* amaxes) {
  constexpr int kRow = 1 + kFp8Window;
  float* const row = amaxes + static_cast<std::int64_t>(blockIdx.x) * kRow;
  const int i = static_cast<int>(threadIdx.x);
  const float before = i > 0 && i < kRow ? row[i - 1] : 0.0f;
  __syncthreads();
  if (i < kRow) row[i] = before;
}

// ---- codes, by rows and by columns

constexpr int kSide = 128;             // rows and columns of a tile
constexpr int kFours = kSide / 4;      // words of a column: each holds the codes of four rows
constexpr int kPacks = kSide / kPack;  // packs of a row
constexpr int kChunks = kSide / 16;    // chunks of a column, of 16 bytes each
static_assert(kPacks * kFours == 2 * kThreads);

struct alignas(8) Bytes8 {
  std::uint32_t word[2];
};

/// The destination of codes, by rows or by columns (lines), which are written in chunks. `data` is null if they are not
/// wanted.
struct CodeLines {
  std::uint8_t* data = nullptr;
  std::int64_t length = 0;
  bool aligned = false;  ///< lines begin at a multiple of a chunk

  /// Stores a chunk of codes at position `at` of line `line`, cut off at the line's end.
  template <class Chunk>
  __device__ __forceinline__ void store(std::int64_t line, std::int64_t at, const Chunk& codes) const {
    if (at >= length) return;
    std::uint8_t* const to = data + line * length + at;
    if (aligned) {
      *reinterpret_cast<Chunk*>(to) = codes;
      return;
    }
#pragma unroll
    for (int j = 0; j < static_cast<int>(sizeof(Chunk)); ++j)
      if (at + j < length) to[j] = static_cast<std::uint8_t>(codes.word[j / 4] >> j % 4 * 8);
  }
};

struct EncodeTask {
  const bfloat16* x = nullptr;
  std::int64_t rows = 0, cols = 0, pitch = 0;
  bool packed = false;  ///< x may be read in packs
  CodeLines by_rows, by_columns;
  float* scale = nullptr;

  __device__ __forceinline__ void load(std::int64_t row, std::int64_t column, float (&values)[kPack]) const {
    if (packed && row < rows && column < cols) return load_pack(x, DType::bf16, row * pitch + column, values);
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      values[j] = row < rows && column + j < cols ? widened(x[row * pitch + column + j]) : 0.0f;
  }
};

/// Computes the codes of x in one pass. A thread processes 4 rows of 8 columns: it stores their codes by rows, and
/// writes them by columns to shared memory, where a column's words are swizzled so that neither access has bank
/// conflicts.
template <Float8 kFormat>
__global__ void __launch_bounds__(kThreads)
    encode_tiles(EncodeTask task, const float* history, const std::uint32_t* own, std::uint32_t* record) {
  __shared__ Bytes16 tile[kSide][kChunks];
  const float past = largest_in(history);
  const int exponent = scale_exponent(past > 0 ? past : std::bit_cast<float>(*own), kFormat);
  if (blockIdx.x == 0 && threadIdx.x == 0) *task.scale = power_of_two(-exponent);
  std::uint32_t largest = 0;
  const std::int64_t across = (task.cols + kSide - 1) / kSide, down = (task.rows + kSide - 1) / kSide;
  for (std::int64_t at = blockIdx.x; at < across * down; at += gridDim.x) {
    const std::int64_t first_row = at / across * kSide, first_column = at % across * kSide;
    const int four = static_cast<int>(threadIdx.x) / 8;
#pragma unroll 1
    for (int pack = static_cast<int>(threadIdx.x) % 8; pack < kPacks; pack += 8) {
      const std::int64_t column = first_column + pack * kPack;
      std::uint32_t by_column[kPack] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int64_t row = first_row + four * 4 + i;
        float values[kPack];
        task.load(row, column, values);
        Bytes8 codes{};
#pragma unroll
        for (int j = 0; j < kPack; ++j) {
          keep_finite(values[j], largest);
          const std::uint32_t code = to_float8(values[j], exponent, kFormat);
          codes.word[j / 4] |= code << j % 4 * 8;
          by_column[j] |= code << i * 8;
        }
        if (task.by_rows.data != nullptr && row < task.rows) task.by_rows.store(row, column, codes);
      }
      const int word_index = four ^ pack % 8 * 4;
#pragma unroll
      for (int j = 0; j < kPack; ++j) tile[pack * kPack + j][word_index / 4].word[word_index % 4] = by_column[j];
    }
    if (task.by_columns.data == nullptr) continue;  // the same condition for all threads
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kSide * kChunks; i += kThreads) {
      const int column = i / kChunks, chunk = i % kChunks;
      if (first_column + column < task.cols)
        task.by_columns.store(first_column + column, first_row + chunk * 16, tile[column][chunk ^ column / kPack % 8]);
    }
    __syncthreads();  // all threads have read the tile before the next one is written
  }
  publish(largest, record);
}

template <Float8 kFormat>
void encode_as(const EncodeTask& task, const Fp8Rounding& r, const std::uint32_t* own) {
  launch(encode_tiles<kFormat>, grid_for(ceil_div(task.rows, kSide) * ceil_div(task.cols, kSide)), kThreads, 0, task,
         r.history, own, reinterpret_cast<std::uint32_t*>(r.record));
}

// ---- entry points

Rows rows_of(const Fp8Rounding& r) {
  return {.data = static_cast<const bfloat16*>(r.x),
          .count = r.rows * r.cols,
          .cols = r.rows <= 1 ? r.pitch : r.cols,
          .pitch = r.pitch};
}
/// Returns true if x can be read in packs: each begins at a multiple of 16 bytes, and none crosses the end of a row.
bool packs_rows(const Rows& x) {
  return packs(x.data, DType::bf16) && x.count % kPack == 0 &&
         (x.cols == x.pitch || (x.cols % kPack == 0 && x.pitch % kPack == 0));
}

/// The largest magnitude of x, in device memory. It is measured only if the history contains no magnitude.
class Measured {
 public:
  Measured(const Rows& x, bool packed, const float* history) : own_(1) {
    check(cudaMemsetAsync(own_.data(), 0, sizeof(std::uint32_t), context().stream), "clearing");
    const unsigned grid = grid_for(ceil_div(x.count, kThreads * (packed ? kPack : 1)));
    launch(packed ? measure<true> : measure<false>, grid, kThreads, 0, x, history, own_.data());
  }
  const std::uint32_t* own() const { return own_.data(); }

 private:
  Buffer<std::uint32_t> own_;
};

template <bool kPacked, Float8 kFormat>
void round_as(const Rows& x, const Fp8Rounding& r) {
  const Measured measured(x, kPacked, r.history);
  const unsigned grid = grid_for(ceil_div(x.count, kThreads * (kPacked ? kPack : 1)));
  launch(round_rows<kPacked, kFormat>, grid, kThreads, 0, x, static_cast<bfloat16*>(r.y), r.history, measured.own(),
         reinterpret_cast<std::uint32_t*>(r.record));
}

}  // namespace

void run_fp8_round(const Fp8Rounding& r) {
  const Rows x = rows_of(r);
  if (x.count == 0) return;
  const bool packed = packs_rows(x) && packs(r.y, DType::bf16);
  const bool e4m3 = r.format == Float8::e4m3;
  if (packed) return e4m3 ? round_as<true, Float8::e4m3>(x, r) : round_as<true, Float8::e5m2>(x, r);
  return e4m3 ? round_as<false, Float8::e4m3>(x, r) : round_as<false, Float8::e5m2>(x, r);
}

void run_fp8_encode(const Fp8Encoding& e) {
  const Fp8Rounding& r = e.rounding;
  const Rows x = rows_of(r);
  const Measured measured(x, packs_rows(x), r.history);
  const EncodeTask task{.x = x.data,
                        .rows = r.rows,
                        .cols = r.cols,
                        .pitch = r.pitch,
                        .packed = packs(r.x, DType::bf16) && r.cols % kPack == 0 &&
                                  (r.rows <= 1 || r.pitch % kPack == 0),
                        .by_rows = {.data = e.rows, .length = r.cols, .aligned = r.cols % kPack == 0},
                        .by_columns = {.data = e.columns, .length = r.rows, .aligned = r.rows % 16 == 0},
                        .scale = e.scale};
  if (r.format == Float8::e4m3)
    encode_as<Float8::e4m3>(task, r, measured.own());
  else
    encode_as<Float8::e5m2>(task, r, measured.own());
}

void run_fp8_begin_step(const Fp8BeginStep& call) {
  if (call.rows > 0) launch(begin_steps, static_cast<unsigned>(call.rows), kWarp, 0, call.amaxes);
}

}  // namespace binade::cuda
