#include <limits>

#include "binade/core/math.h"
#include "binade/cuda/device/copies.cuh"
#include "binade/cuda/device/flat.cuh"
#include "binade/cuda/device/fold.cuh"
#include "binade/cuda/device/kernels.cuh"

/// The kernels of steps whose commit the device decides (core/kernels/step.h).
namespace binade::cuda {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u;
constexpr int kThreads = kSumLanes;

__global__ void begin_step(StepAddresses p, std::int64_t* step_offset) {
  for (std::int64_t i = threadIdx.x; i < p.parameters; i += blockDim.x) {
    p.words[i] = 0;
    p.extremes[i] = BlockExtremes{};
  }
  if (threadIdx.x != 0) return;
  *p.outcome = StepOutcome{};
  *p.seed = p.numbers->seed;
  *step_offset = p.numbers->step_offset;
}

/// Computes sum_of_blocks() (core/kernels/optimizer.h) in the same order.
__device__ double sum_of(const BlockScan* results, std::int64_t count) {
  __shared__ double lanes[kSumLanes];
  double sum = 0;
  for (std::int64_t b = threadIdx.x; b < count; b += kSumLanes) sum += results[b].sum_squares;
  lanes[threadIdx.x] = sum;
  for (unsigned half = kSumLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) lanes[threadIdx.x] += lanes[threadIdx.x + half];
  }
  __syncthreads();
  return lanes[0];
}

/// Returns the clip factor. Each product and sum is rounded separately (without fused multiply-add), as on the host.
__device__ double clip_factor(double norm, double clip_norm) {
  if (!(clip_norm > 0)) return 1;
  const double factor = clip_norm / __dadd_rn(norm, 1e-6);
  return factor < 1 ? factor : 1;
}

__device__ RefusalCause judge_losses(const StepAddresses& p) {
  double sum = 0;
  bool finite = true;
  for (std::int64_t i = 0; i < p.micro_batches; ++i) {
    finite = finite && (std::bit_cast<std::uint32_t>(p.losses[i]) & 0x7fffffffu) < kInfinity;
    sum += p.losses[i];
  }
  const bool fine = finite && sum / static_cast<double>(p.micro_batches) <= p.numbers->loss_bound;
  return fine ? RefusalCause::kNone : RefusalCause::kLoss;
}

/// Decides whether the step commits. Must be launched as one block. `words`: the largest magnitude of each of `slices`
/// slices; parameters come first.
__global__ void __launch_bounds__(kThreads) decide(StepAddresses p, const BlockScan* results, std::int64_t blocks,
                                                   const std::uint32_t* words, std::int64_t slices, Fault* fault) {
  const StepNumbers numbers = *p.numbers;
  const double sum = sum_of(results, blocks);
  const double norm = math::sqrt(sum) * numbers.inverse_scale;
  const double clip = clip_factor(norm, numbers.clip_norm);
  const double factor = numbers.inverse_scale * clip;
  int bad_gradient = 0, bad_statistic = 0;
  for (std::int64_t s = threadIdx.x; s < slices; s += kThreads) {
    const std::uint32_t word = words[s];
    if (s >= p.parameters) {
      bad_statistic |= word >= kInfinity ? 1 : 0;
      continue;
    }
    p.words[s] = word;
    const double gradient = static_cast<double>(std::bit_cast<float>(word)) * factor;
    bad_gradient |= word < kInfinity && gradient <= p.gradient_limits[s] ? 0 : 1;
  }
  bad_gradient = __syncthreads_or(bad_gradient);
  bad_statistic = __syncthreads_or(bad_statistic);
  if (threadIdx.x != 0) return;
  StepOutcome outcome;
  outcome.sum_squares = sum;
  outcome.gradient_factor = static_cast<float>(factor);
  outcome.cause = judge_losses(p);
  if (outcome.cause == RefusalCause::kNone && bad_statistic != 0) outcome.cause = RefusalCause::kStatistics;
  if (outcome.cause == RefusalCause::kNone && bad_gradient != 0) outcome.cause = RefusalCause::kGradients;
  volatile Fault* first = fault;
  if (first->call != 0) {  // the host repeats the step eagerly, and then reports the bad data
    outcome.cause = RefusalCause::kBadData;
    first->call = 0;
  }
  if (*p.halted != 0) outcome.cause = RefusalCause::kHalted;
  if (outcome.cause != RefusalCause::kNone) *p.halted = 1;
  *p.outcome = outcome;
}

__global__ void commit(StepAddresses p, const MemoryCopy* chunks) {
  if (p.outcome->cause == RefusalCause::kNone) copy_chunk(chunks[blockIdx.x]);
}

}  // namespace

void run_begin_step(const BeginStepArgs& call) {
  launch(begin_step, 1u, 256u, 0, call.addresses, context().step_offset);
}

void run_decide(const DecideArgs& a) {
  const auto slices = static_cast<std::int64_t>(a.values.size()), count = static_cast<std::int64_t>(a.blocks.size());
  const Buffer<BlockScan> results(count);
  const Buffer<std::uint32_t> words(slices);
  check(cudaMemsetAsync(words.data(), 0, static_cast<std::size_t>(slices) * sizeof(std::uint32_t), context().stream),
        "verdict");
  scan(a.blocks, a.values, results.data(), words.data());
  std::int64_t gradient_blocks = 0;
  while (gradient_blocks < count && a.blocks[static_cast<std::size_t>(gradient_blocks)].slice < a.addresses.parameters)
    ++gradient_blocks;
  launch(decide, 1u, static_cast<unsigned>(kThreads), 0, a.addresses, results.data(), gradient_blocks, words.data(),
         slices, context().fault.first);
}

void run_commit(const CommitArgs& call) {
  const std::vector<MemoryCopy> chunks = in_chunks(call.copies, kBlockChunk);
  if (chunks.empty()) return;
  const Buffer<MemoryCopy> on_device(chunks.data(), static_cast<std::int64_t>(chunks.size()));
  launch(commit, static_cast<unsigned>(chunks.size()), 256u, 0, call.addresses, on_device.data());
}

void run_end_step(const EndStepArgs&) {
  check(cudaMemsetAsync(context().step_offset, 0, sizeof *context().step_offset, context().stream), "step");
}

}  // namespace binade::cuda
