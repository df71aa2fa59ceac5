#pragma once

#include <optional>
#include <span>
#include <vector>

#include "binade/core/kernels/step.h"
#include "binade/optim/optimizer.h"

namespace binade::optim {

/// One update that the device commits or refuses without the host (docs/decisions/0023).
struct DeviceUpdate {
  StepInput input{};
  std::vector<UpdateSlice> slices{};  ///< arguments of the update kernel, one per parameter
  /// One per parameter: the largest unscaled, clipped gradient for which UpdateBounds proves finite results; below 0 if
  /// there is none
  std::vector<double> gradient_limits{};
};

/// Makes the updates of an optimizer in steps that the device commits or refuses without the host
/// (core/kernels/step.h).
class DeviceUpdates {
 public:
  /// `optimizer` must outlive the object.
  explicit DeviceUpdates(Optimizer& optimizer) : optimizer_(optimizer) {}

  /// True if the device can decide the next update: UpdateBounds::apply() holds, updates write all 16-bit copies that
  /// forward reads, and an earlier update has recorded which parameters have gradients.
  bool possible() const;
  /// Returns the next update, if no other update is in flight.
  DeviceUpdate next(const StepInput& input);
  /// Returns the update that follows `in_flight`, the submitted updates whose results are not known yet, oldest first.
  /// Its gradient limits keep the bounds of values and moments within 1/16 of the largest numbers of their dtypes.
  /// Returns std::nullopt if the bounds after all these updates are not within the dtypes' range.
  std::optional<DeviceUpdate> next_after(std::span<const DeviceUpdate* const> in_flight, const StepInput& input);
  /// Launches the kernels that check gradients and `statistics` for finite values and then make the update if the
  /// verdict allows it. Throws AutogradError unless the same parameters have gradients as in the last update.
  void launch(const StepAddresses& addresses, std::span<const Tensor> statistics);
  /// Number of parameters that had a gradient in the last update.
  std::size_t updated_parameters() const;
  /// Call it after the device has committed the oldest update in flight: counts the update and stores the new largest
  /// magnitudes. `extremes`: one per parameter.
  void committed(std::span<const BlockExtremes> extremes);

 private:
  /// `ahead`: number of updates in flight before this one.
  std::vector<UpdateSlice> slices(const StepInput& input, std::int64_t ahead);

  Optimizer& optimizer_;
};

}  // namespace binade::optim
