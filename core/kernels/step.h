#pragma once

#include <cstdint>
#include <span>

#include "binade/core/kernels/optimizer.h"
#include "binade/core/kernels/tensor.h"

namespace binade {

/// What a device needs to make whole steps without its host: it judges what came out, and updates where nothing speaks
/// against it. Where something does it leaves everything as it is, and so do the steps that were sent behind it; the
/// host then makes the step again and finds out what it was. So a device needs to know when all is well, and no more.

/// Why a device did not commit a step.
enum class Undecided : std::int32_t {
  kNone = 0,    ///< it did
  kHalted,      ///< one before it was not committed
  kBadData,     ///< a kernel met data that its op has no result for
  kLoss,        ///< not finite, or above its bound
  kStatistics,  ///< a value that forward keeps is not finite
  kGradients,   ///< not finite, or above what the update is known to take
};

/// What is different from one step to the next. In device memory, written before the step is sent.
struct StepNumbers {
  std::int64_t step_offset = 0;  ///< of random streams: steps since the one that was recorded
  double inverse_scale = 1;      ///< 1 / (loss scale x micro-batches)
  double clip_norm = 0;          ///< > 0: gradients of a larger norm are scaled down, by min(1, this / (norm + 1e-6))
  double loss_bound = 0;         ///< of the mean over micro-batches
  float seed = 1;                ///< what backward starts from: the loss scale
  float average_weight = 0;      ///< of the moving average
};

/// What a step came to, in device memory until the host brings it.
struct StepOutcome {
  Undecided cause = Undecided::kNone;
  float gradient_factor = 0;  ///< of the update: inverse scale x clip factor
  double sum_squares = 0;     ///< of the gradients as they lie there
};

/// Where a step has its numbers and results: all in device memory, at the same places in every step.
struct StepPlaces {
  const StepNumbers* numbers = nullptr;
  const UpdateSlice* slices = nullptr;      ///< one a parameter; its gradient_factor is not read
  const double* gradient_limits = nullptr;  ///< one a parameter: of unscaled and clipped gradients
  float* seed = nullptr;                    ///< one element, from the numbers
  float* losses = nullptr;                  ///< one a micro-batch
  StepOutcome* outcome = nullptr;
  std::uint32_t* words = nullptr;     ///< one a parameter: bits of its largest gradient
  BlockExtremes* extremes = nullptr;  ///< one a parameter, after the update; 0 without one
  std::uint32_t* halted = nullptr;    ///< not 0: nothing is committed until the host has cleared it
  std::int64_t parameters = 0, micro_batches = 0;
};

/// The kernels of such a step, in launch order. Spans lie in the host's memory; what they point at,
/// and what the places name, in the device's.

/// Takes the numbers over and forgets the outcome before.
struct BeginStepArgs {
  StepPlaces places{};
};
/// `values` are the parameters' gradients and behind them what forward keeps, cut into `blocks` alike; null: none.
struct DecideArgs {
  StepPlaces places{};
  std::span<const FlatBlock> blocks{};
  std::span<const float* const> values{};
};
/// As `update` and `average`, where the outcome is a commit. `slices` and `extremes` of the arguments are those of the
/// places; a stochastic rounding's stream is that of the step which is recorded.
struct DecidedUpdateArgs {
  StepPlaces places{};
  UpdateArguments update{};
};
struct DecidedAverageArgs {
  StepPlaces places{};
  AverageArguments average{};
};
/// Tensors that take effect with the step.
struct CommitArgs {
  StepPlaces places{};
  std::span<const MemoryCopy> copies{};
};
/// Random streams are the host's again.
struct EndStepArgs {};

}  // namespace binade
