#include "binade/cuda/device/sort.cuh"

namespace binade::cuda {
namespace {

constexpr int kBits = 6, kDigits = 1 << kBits;
constexpr int kThreads = 256, kEach = 8, kTile = kThreads * kEach;
constexpr int kScanThreads = 1024;

/// Sets starts[digit * tiles + tile] to the number of keys of the tile that have the digit.
__global__ void __launch_bounds__(kThreads)
    count_digits(const std::uint32_t* keys, std::int64_t count, int shift, std::uint32_t* starts) {
  __shared__ unsigned counts[kDigits];
  if (threadIdx.x < kDigits) counts[threadIdx.x] = 0;
  __syncthreads();
  for (int k = 0; k < kEach; ++k) {
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kTile + k * kThreads + threadIdx.x;
    if (i < count) atomicAdd(&counts[keys[i] >> shift & (kDigits - 1)], 1u);
  }
  __syncthreads();
  if (threadIdx.x < kDigits) starts[threadIdx.x * gridDim.x + blockIdx.x] = counts[threadIdx.x];
}

/// Replaces every count by the sum of all counts before it. Must be launched as one block.
__global__ void __launch_bounds__(kScanThreads) scan(std::uint32_t* x, std::int64_t count) {
  __shared__ std::uint32_t warp_sums[kScanThreads / kWarp];
  const std::int64_t each = (count + kScanThreads - 1) / kScanThreads;
  const std::int64_t begin = static_cast<std::int64_t>(threadIdx.x) * each;
  const std::int64_t end = begin + each < count ? begin + each : count;
  std::uint32_t sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum += x[i];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const auto sum_up_to = [lane](std::uint32_t lane_sum) {
    for (unsigned distance = 1; distance < kWarp; distance *= 2) {
      const std::uint32_t below = __shfl_up_sync(0xffffffffu, lane_sum, distance);
      if (lane >= distance) lane_sum += below;
    }
    return lane_sum;
  };
  const std::uint32_t up_to_here = sum_up_to(sum);
  if (lane == kWarp - 1) warp_sums[warp] = up_to_here;
  __syncthreads();
  if (warp == 0) warp_sums[lane] = sum_up_to(warp_sums[lane]);
  __syncthreads();
  std::uint32_t before = up_to_here - sum + (warp > 0 ? warp_sums[warp - 1] : 0);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::uint32_t here = x[i];
    x[i] = before;
    before += here;
  }
}

/// Moves keys and positions to the places that `starts` gives. Each thread takes kEach contiguous elements, so that the
/// order within a tile is by thread, then by element.
__global__ void __launch_bounds__(kThreads)
    scatter(const std::uint32_t* keys, const std::uint32_t* positions, std::int64_t count, int shift,
            const std::uint32_t* starts, std::uint32_t* to_keys, std::uint32_t* to_positions) {
  constexpr int kParts = kThreads / kDigits;  // number of threads that sum the counts of one digit
  __shared__ std::uint16_t counts[kDigits][kThreads + 2];
  __shared__ std::uint16_t of_part[kDigits][kParts];
  const int t = static_cast<int>(threadIdx.x);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kTile + t * kEach;
  for (int d = 0; d < kDigits; ++d) counts[d][t] = 0;
  for (int k = 0; k < kEach; ++k)
    if (first + k < count) ++counts[keys[first + k] >> shift & (kDigits - 1)][t];
  __syncthreads();
  const int digit = t / kParts, part = t % kParts, begin = part * (kThreads / kParts);
  std::uint16_t sum = 0;
  for (int i = begin; i < begin + kThreads / kParts; ++i) sum = static_cast<std::uint16_t>(sum + counts[digit][i]);
  of_part[digit][part] = sum;
  __syncthreads();
  std::uint16_t before = 0;
  for (int p = 0; p < part; ++p) before = static_cast<std::uint16_t>(before + of_part[digit][p]);
  for (int i = begin; i < begin + kThreads / kParts; ++i) {
    const std::uint16_t here = counts[digit][i];
    counts[digit][i] = before;
    before = static_cast<std::uint16_t>(before + here);
  }
  __syncthreads();
  for (int k = 0; k < kEach && first + k < count; ++k) {
    const std::uint32_t key = keys[first + k], d = key >> shift & (kDigits - 1);
    const std::uint32_t to = starts[d * gridDim.x + blockIdx.x] + counts[d][t]++;
    to_keys[to] = key;
    to_positions[to] = positions != nullptr ? positions[first + k] : static_cast<std::uint32_t>(first + k);
  }
}

}  // namespace

PositionSort::PositionSort(std::int64_t count)
    : count_(count),
      tiles_(ceil_div(count, kTile)),
      keys_{Buffer<std::uint32_t>(count), Buffer<std::uint32_t>(count)},
      positions_{Buffer<std::uint32_t>(count), Buffer<std::uint32_t>(count)},
      starts_(tiles_ * kDigits) {}

void PositionSort::sort(std::uint32_t largest_key) {
  if (count_ == 0) return;
  const auto grid = static_cast<unsigned>(tiles_);
  int shift = 0;
  do {
    launch(count_digits, grid, kThreads, 0, keys_[sorted_index_].data(), count_, shift, starts_.data());
    launch(scan, 1, kScanThreads, 0, starts_.data(), tiles_ * kDigits);
    launch(scatter, grid, kThreads, 0, keys_[sorted_index_].data(),
           ordered_ ? positions_[sorted_index_].data() : nullptr, count_, shift, starts_.data(),
           keys_[1 - sorted_index_].data(), positions_[1 - sorted_index_].data());
    sorted_index_ = 1 - sorted_index_;
    ordered_ = true;
    shift += kBits;
  } while (shift < 32 && largest_key >> shift != 0);
}

}  // namespace binade::cuda
