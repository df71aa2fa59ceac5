#include "core/float8.h"
#include "cuda/device/calls.cuh"
#include "cuda/device/context.cuh"
#include "cuda/device/value.cuh"

/// Operands of 8-bit products (core/ops/fp8.h). The scale never leaves the device: every thread reads the 16 magnitudes
/// it comes from. A largest magnitude does not depend on the order in which it is found, so one atomic a warp finds it.
namespace binade::cuda {
namespace {

constexpr int kThreads = 256;

/// Element i of x lies in row i / cols.
struct Rows {
  const bfloat16* data = nullptr;
  std::int64_t count = 0, cols = 0, pitch = 0;
  __device__ std::int64_t place(std::int64_t i) const { return cols == pitch ? i : i / cols * pitch + i % cols; }
};

/// A history that a fault has reached does not decide.
__device__ __forceinline__ float largest_in(const float* history) {
  float largest = 0;
  if (history == nullptr) return largest;
#pragma unroll
  for (int i = 0; i < ops::kFp8Window; ++i) {
    const float x = history[i];
    if (x > largest && std::bit_cast<std::uint32_t>(x) < 0x7f800000u) largest = x;
  }
  return largest;
}

__device__ __forceinline__ void keep_finite(float x, std::uint32_t& largest) {
  const std::uint32_t a = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
  if (a < 0x7f800000u && a > largest) largest = a;
}

/// Every thread of the block calls it. `word` becomes the largest of itself and theirs; null: nothing.
__device__ __forceinline__ void publish(std::uint32_t largest, std::uint32_t* word) {
  if (word == nullptr) return;
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    const std::uint32_t other = __shfl_xor_sync(0xffffffffu, largest, apart);
    largest = other > largest ? other : largest;
  }
  if (threadIdx.x % kWarp == 0 && largest > *static_cast<volatile std::uint32_t*>(word)) atomicMax(word, largest);
}

/// f(x, i, n) for this thread's elements i … i + n - 1 of x: 8 at a time where kPacked, else one.
template <bool kPacked, class F>
__device__ __forceinline__ void each(const Rows& x, F&& f) {
  constexpr int kStep = kPacked ? kPack : 1;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = (blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x) * kStep; i < x.count;
       i += threads * kStep) {
    float values[kStep];
    if constexpr (kPacked)
      load_pack(x.data, DType::bf16, x.place(i), values);
    else
      values[0] = widened(x.data[x.place(i)]);
    f(values, i);
  }
}

/// own = the largest magnitude of x, where nothing else says how large it is.
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
  constexpr int kRow = 1 + ops::kFp8Window;
  float* const row = amaxes + static_cast<std::int64_t>(blockIdx.x) * kRow;
  const int i = static_cast<int>(threadIdx.x);
  const float before = i > 0 && i < kRow ? row[i - 1] : 0.0f;
  __syncthreads();
  if (i < kRow) row[i] = before;
}

template <bool kPacked, Float8 kFormat>
void round_as(const Rows& x, const ops::Fp8Rounding& r) {
  const Buffer<std::uint32_t> own(1);
  check(cudaMemsetAsync(own.data(), 0, sizeof(std::uint32_t), context().stream), "clearing");
  const unsigned grid = grid_for(ceil_div(x.count, kThreads * (kPacked ? kPack : 1)));
  launch(measure<kPacked>, grid, kThreads, 0, x, r.history, own.data());
  launch(round_rows<kPacked, kFormat>, grid, kThreads, 0, x, static_cast<bfloat16*>(r.y), r.history,
         static_cast<const std::uint32_t*>(own.data()), reinterpret_cast<std::uint32_t*>(r.record));
}

}  // namespace

void run_fp8_round(const ops::Fp8Rounding& r) {
  const Rows x{.data = static_cast<const bfloat16*>(r.x),
               .count = r.rows * r.cols,
               .cols = r.rows <= 1 ? r.pitch : r.cols,
               .pitch = r.pitch};
  if (x.count == 0) return;
  const bool packed = packs(r.x, DType::bf16) && packs(r.y, DType::bf16) && x.count % kPack == 0 &&
                      (x.cols == x.pitch || (x.cols % kPack == 0 && x.pitch % kPack == 0));
  const bool e4m3 = r.format == Float8::e4m3;
  if (packed) return e4m3 ? round_as<true, Float8::e4m3>(x, r) : round_as<true, Float8::e5m2>(x, r);
  return e4m3 ? round_as<false, Float8::e4m3>(x, r) : round_as<false, Float8::e5m2>(x, r);
}

void run_fp8_begin_step(const Fp8BeginStepCall& call) {
  if (call.rows > 0) launch(begin_steps, static_cast<unsigned>(call.rows), kWarp, 0, call.amaxes);
}

}  // namespace binade::cuda
