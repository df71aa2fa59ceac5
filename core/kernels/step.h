#pragma once

#include <cstdint>
#include <span>

#include "binade/core/kernels/optimizer.h"
#include "binade/core/kernels/tensor.h"

namespace binade {

/// Steps that a device decides and commits without the host: it checks losses, gradients and statistics, and updates
/// only if every check passes. Otherwise neither this step nor the steps submitted after it change any state; the host
/// then repeats the step and finds the cause.

/// The reason why a device did not commit a step.
enum class RefusalCause : std::int32_t {
  kNone = 0,    ///< committed
  kHalted,      ///< an earlier step was not committed
  kBadData,     ///< a kernel read data for which its op has no result
  kLoss,        ///< a loss is not finite, or above its bound
  kStatistics,  ///< a statistic that forward stores is not finite
  kGradients,   ///< a gradient is not finite, or above the limit of the update
};

/// Values that change from step to step. They are in device memory, and are written before the step is submitted.
struct StepNumbers {
  std::int64_t step_offset = 0;  ///< offset of random streams: steps since the captured step
  double inverse_scale = 1;      ///< 1 / (loss scale x micro-batches)
  double clip_norm = 0;          ///< if > 0, gradients are multiplied by min(1, clip_norm / (norm + 1e-6))
  double loss_bound = 0;         ///< upper limit for the mean loss over micro-batches
  float seed = 1;            ///< gradient of the scaled loss by the loss, with which backward starts: the loss scale
  float average_weight = 0;  ///< weight of the new values in the moving average
};

/// The result of a step, in device memory until the host collects it.
struct StepOutcome {
  RefusalCause cause = RefusalCause::kNone;
  float gradient_factor = 0;  ///< factor of the gradients in the update: inverse scale x clip factor
  double sum_squares = 0;     ///< sum of the squares of the gradients as stored
};

/// Device addresses of a step's inputs and results, the same in every step.
struct StepAddresses {
  const StepNumbers* numbers = nullptr;
  const UpdateSlice* slices = nullptr;      ///< one per parameter; its gradient_factor is not read
  const double* gradient_limits = nullptr;  ///< one per parameter, for unscaled and clipped gradients
  float* seed = nullptr;                    ///< one element, set to StepNumbers::seed at the beginning of the step
  float* losses = nullptr;                  ///< one per micro-batch
  StepOutcome* outcome = nullptr;
  std::uint32_t* words = nullptr;     ///< one per parameter: bits of its largest gradient
  BlockExtremes* extremes = nullptr;  ///< one per parameter, after the update; 0 if there was no update
  std::uint32_t* halted = nullptr;    ///< if not 0, no step is committed until the host clears it
  std::int64_t parameters = 0, micro_batches = 0;
};

/// Arguments of the kernels of such a step, in launch order. Spans are in host memory; the data to which they and the
/// addresses point is in device memory.

/// Arguments of the kernel that reads the StepNumbers and clears the previous outcome.
struct BeginStepArgs {
  StepAddresses addresses{};
};
/// Decides the outcome. `values` are the parameters' gradients, then the statistics that forward stores, all cut into
/// `blocks`. A value is null if the parameter has no gradient.
struct DecideArgs {
  StepAddresses addresses{};
  std::span<const FlatBlock> blocks{};
  std::span<const float* const> values{};
};
/// Updates the parameters if the outcome is a commit, otherwise does nothing. Uses the `slices` and `extremes` of
/// `addresses` and ignores those of `update`. Stochastic rounding uses the stream of the captured step.
struct DecidedUpdateArgs {
  StepAddresses addresses{};
  UpdateArguments update{};
};
/// Updates averaged weights, like `average`, but does nothing unless the outcome is a commit.
struct DecidedAverageArgs {
  StepAddresses addresses{};
  AverageArguments average{};
};
/// Copies tensors whose new values take effect only if the step commits.
struct CommitArgs {
  StepAddresses addresses{};
  std::span<const MemoryCopy> copies{};
};
/// Resets the offset of random streams to 0, for ops that the host submits eagerly.
struct EndStepArgs {};

}  // namespace binade
