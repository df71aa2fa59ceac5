#pragma once

#include <cstdint>
#include <span>

#include "binade/core/kernels/optimizer.h"
#include "binade/core/kernels/tensor.h"

namespace binade {

/// Steps that a device decides and commits without the host: it checks losses, gradients and statistics, and updates
/// only if every check passes. Otherwise it changes nothing, and neither do the steps submitted behind it; the host
/// then repeats the step and finds the cause.

/// Why a device did not commit a step.
enum class Undecided : std::int32_t {
  kNone = 0,    ///< committed
  kHalted,      ///< an earlier step was not committed
  kBadData,     ///< a kernel met data for which its op has no result
  kLoss,        ///< not finite, or above its bound
  kStatistics,  ///< a value that forward keeps is not finite
  kGradients,   ///< not finite, or above the limit of the update
};

/// Values that change from step to step. In device memory, written before the step is submitted.
struct StepNumbers {
  std::int64_t step_offset = 0;  ///< of random streams: steps since the captured one
  double inverse_scale = 1;      ///< 1 / (loss scale x micro-batches)
  double clip_norm = 0;          ///< > 0: gradients of a larger norm are scaled by min(1, this / (norm + 1e-6))
  double loss_bound = 0;         ///< of the mean loss over micro-batches
  float seed = 1;                ///< gradient of the loss: the loss scale
  float average_weight = 0;      ///< of the moving average
};

/// Result of a step, in device memory until the host collects it.
struct StepOutcome {
  Undecided cause = Undecided::kNone;
  float gradient_factor = 0;  ///< factor of the gradients in the update: inverse scale x clip factor
  double sum_squares = 0;     ///< of the gradients as stored
};

/// Device addresses of a step's inputs and results, the same in every step.
struct StepPlaces {
  const StepNumbers* numbers = nullptr;
  const UpdateSlice* slices = nullptr;      ///< one per parameter; its gradient_factor is not read
  const double* gradient_limits = nullptr;  ///< one per parameter, for unscaled and clipped gradients
  float* seed = nullptr;                    ///< one element, copied from the numbers
  float* losses = nullptr;                  ///< one per micro-batch
  StepOutcome* outcome = nullptr;
  std::uint32_t* words = nullptr;     ///< one per parameter: bits of its largest gradient
  BlockExtremes* extremes = nullptr;  ///< one per parameter, after the update; 0 without one
  std::uint32_t* halted = nullptr;    ///< not 0: nothing is committed until the host clears it
  std::int64_t parameters = 0, micro_batches = 0;
};

/// The kernels of such a step, in launch order. Spans are in host memory; what they and the addresses point to is in
/// device memory.

/// Reads the numbers and clears the previous outcome.
struct BeginStepArgs {
  StepPlaces places{};
};
/// `values` are the parameters' gradients, then what forward keeps, all cut into `blocks`; null: none.
struct DecideArgs {
  StepPlaces places{};
  std::span<const FlatBlock> blocks{};
  std::span<const float* const> values{};
};
/// Like `update` and `average`, if the outcome is a commit. `slices` and `extremes` of the arguments are those of the
/// step's addresses; stochastic rounding uses the stream of the captured step.
struct DecidedUpdateArgs {
  StepPlaces places{};
  UpdateArguments update{};
};
struct DecidedAverageArgs {
  StepPlaces places{};
  AverageArguments average{};
};
/// Copies tensors that take effect with the step.
struct CommitArgs {
  StepPlaces places{};
  std::span<const MemoryCopy> copies{};
};
/// Resets the offset of random streams to that of the host.
struct EndStepArgs {};

}  // namespace binade
