#pragma once

#include <optional>
#include <span>
#include <vector>

#include "binade/core/kernels/step.h"
#include "binade/optim/optimizer.h"

namespace binade::optim {

/// One update that a device commits or refuses by itself. For each parameter: its numbers, and the largest unscaled,
/// clipped gradient for which the bounds prove finite results (below 0: for none).
struct DeviceUpdate {
  StepInput input{};
  std::vector<UpdateSlice> slices{};
  std::vector<double> gradient_limits{};
};

/// An optimizer's updates in steps that the device decides without its host (core/kernels/step.h).
class DeviceUpdates {
 public:
  /// `optimizer` must outlive the object.
  explicit DeviceUpdates(Optimizer& optimizer) : optimizer_(optimizer) {}

  /// True if the device can decide the next update: the bounds apply, updates write the 16-bit copies that forward
  /// reads, and the last update was of these parameters.
  bool possible() const;
  /// The next update.
  DeviceUpdate next(const StepInput& input);
  /// The update after those in flight (oldest first), which are not committed yet. Each update may use a sixteenth of
  /// its dtypes' range. Returns std::nullopt if the bounds cannot cover so many updates.
  std::optional<DeviceUpdate> next_after(std::span<const DeviceUpdate* const> in_flight, const StepInput& input);
  /// Launches the verdict over gradients and `statistics`, then the update. Throws AutogradError if other parameters
  /// have gradients than in the last update.
  void launch(const StepPlaces& places, std::span<const Tensor> statistics);
  /// Number of parameters that had a gradient in the last update.
  std::size_t updated_parameters() const;
  /// The device committed the oldest update. `extremes`: one for each parameter.
  void committed(std::span<const BlockExtremes> extremes);

 private:
  std::vector<UpdateSlice> slices(const StepInput& input, std::int64_t ahead);

  Optimizer& optimizer_;
};

}  // namespace binade::optim
