#include "binade/core/math.h"
#include "binade/cuda/device/flat.cuh"
#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/kernels.cuh"

/// The scan of gradients for the verdict, and clipping.
namespace binade::cuda {
namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffu, kInfinity = 0x7f800000u;

/// Computes the results of a scan. Keeps a block of values in registers between the maximum and the sum. `words`
/// (initially 0) receives the largest magnitude of each slice.
__global__ void __launch_bounds__(kFlatThreads)
    scan_blocks(const FlatBlock* blocks, const float* const* values, BlockScan* results, std::uint32_t* words) {
  const FlatBlock block = blocks[blockIdx.x];
  const float* x = values[block.slice];
  constexpr int kRuns = kFlatBlock / (kFlatThreads * kPack);
  float held[kRuns][kPack] = {};
  std::uint32_t largest = 0;
  if (x != nullptr) {
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
      const int i = (r * kFlatThreads + static_cast<int>(threadIdx.x)) * kPack;
      const int n = block.count - i < kPack ? block.count - i : kPack;
      if (n <= 0) continue;
      load_run(x, DType::f32, block.begin + i, n, held[r]);
#pragma unroll
      for (int k = 0; k < kPack; ++k)
        largest = LargerWord::combine(largest, std::bit_cast<std::uint32_t>(held[r][k]) & kMagnitude);
    }
  }
  largest = fold_block<LargerWord, kFlatThreads>(largest);
  BlockScan result{largest, 0};
  if (largest != 0 && largest < kInfinity) {
    // Values are scaled by a power of two to magnitudes below 4. This neither overflows nor rounds, and double undoes
    // it exactly.
    const int biased = static_cast<int>(largest >> 23) - 127;
    const int exponent = biased < -126 ? -126 : biased > 126 ? 126 : biased;
    const float factor = std::bit_cast<float>(static_cast<std::uint32_t>(127 - exponent) << 23);
    float sum = 0;
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        const float scaled = held[r][k] * factor;
        sum += scaled * scaled;
      }
    }
    sum = fold_block<Adding, kFlatThreads>(sum);
    result.sum_squares = sum * std::bit_cast<double>(static_cast<std::uint64_t>(1023 + 2 * exponent) << 52);
  }
  if (threadIdx.x != 0) return;
  results[blockIdx.x] = result;
  if (words != nullptr && largest != 0) atomicMax(&words[block.slice], largest);
}

__global__ void __launch_bounds__(kFlatThreads)
    limit_blocks(const FlatBlock* blocks, float* const* values, float factor, float limit) {
  const FlatBlock block = blocks[blockIdx.x];
  float* x = values[block.slice];
  if (x == nullptr) return;
  each_run(block.count, [&](int i, int n) {
    float y[kPack];
    load_run(x, DType::f32, block.begin + i, n, y);
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      y[k] *= factor;
      if (limit > 0) y[k] = math::clamp(y[k], -limit, limit);
    }
    store_run(x, DType::f32, block.begin + i, n, y);
  });
}

__device__ double norm_of(const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kFlatThreads) sum += static_cast<double>(x[i]) * x[i];
  return math::sqrt(fold_block<Adding, kFlatThreads>(sum));
}

/// Limits the norm of each unit's gradient, one block per unit.
__global__ void __launch_bounds__(kFlatThreads) limit_rows(UnitLimitArguments a) {
  for (std::int64_t u = blockIdx.x; u < a.units; u += gridDim.x) {
    float* g = a.gradients + u * a.size;
    const double weights = norm_of(a.weights + u * a.size, a.size), floor = a.floor;
    const double largest = a.share * (weights < floor ? floor : weights);
    const double norm = norm_of(g, a.size) * a.inverse_scale;
    if (!(norm > largest)) continue;
    const auto factor = static_cast<float>(largest / norm);
    for (std::int64_t i = threadIdx.x; i < a.size; i += kFlatThreads) g[i] *= factor;
  }
}

}  // namespace

void scan(std::span<const FlatBlock> blocks, std::span<const float* const> values, BlockScan* results,
          std::uint32_t* words) {
  const Buffer<const float*> on_device(values.data(), static_cast<std::int64_t>(values.size()));
  launch(scan_blocks, static_cast<unsigned>(blocks.size()), kFlatThreads, 0, flat_blocks(blocks), on_device.data(),
         results, words);
}

void run_scan(const ScanArguments& call) {
  if (call.blocks.empty()) return;
  const Buffer<BlockScan> results(static_cast<std::int64_t>(call.blocks.size()));
  scan(call.blocks, call.values, results.data(), nullptr);
  download(call.results, results.data());
}

void run_limit(const LimitArguments& call) {
  if (call.blocks.empty()) return;
  const Buffer<float*> values(call.values.data(), static_cast<std::int64_t>(call.values.size()));
  launch(limit_blocks, static_cast<unsigned>(call.blocks.size()), kFlatThreads, 0, flat_blocks(call.blocks),
         values.data(), call.factor, call.limit);
}

void run_limit_units(const UnitLimitArguments& call) {
  if (call.units * call.size == 0) return;
  launch(limit_rows, grid_for(call.units), kFlatThreads, 0, call);
}

}  // namespace binade::cuda
