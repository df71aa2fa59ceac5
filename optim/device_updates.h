#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "binade/core/kernels/step.h"
#include "binade/optim/optimizer.h"

namespace binade::optim {

/// One update of some optimizers that the device commits or refuses without the host (docs/decisions/0023).
struct DeviceUpdate {
  std::vector<StepInput> inputs{};    ///< one per optimizer
  std::vector<UpdateSlice> slices{};  ///< arguments of the update kernel, one per parameter of all optimizers
  /// One per parameter: the largest unscaled, clipped gradient for which UpdateBounds proves finite results; below 0 if
  /// there is none
  std::vector<double> gradient_limits{};
};

/// Makes the updates of optimizers in steps that the device commits or refuses without the host
/// (core/kernels/step.h): all of them, or none. Parameters are numbered as if the optimizers were one, in their order.
class DeviceUpdates {
 public:
  /// The optimizers must outlive the object, and be on one device.
  explicit DeviceUpdates(std::vector<Optimizer*> optimizers) : optimizers_(std::move(optimizers)) {}
  explicit DeviceUpdates(Optimizer& optimizer) : optimizers_({&optimizer}) {}

  /// True if the device can decide the next update: UpdateBounds::apply() holds, updates write all 16-bit copies that
  /// forward reads, and an earlier update has recorded which parameters have gradients.
  bool possible() const;
  /// Returns the next update, if no other update is in flight. `inputs`: one per optimizer.
  DeviceUpdate next(std::span<const StepInput> inputs);
  DeviceUpdate next(const StepInput& input) { return next(std::span(&input, 1)); }
  /// Returns the update that follows `in_flight`, the submitted updates whose results are not known yet, oldest first.
  /// Its gradient limits keep the bounds of values and moments within 1/16 of the largest numbers of their dtypes.
  /// Returns std::nullopt if the bounds after all these updates are not within the dtypes' range.
  std::optional<DeviceUpdate> next_after(std::span<const DeviceUpdate* const> in_flight,
                                         std::span<const StepInput> inputs);
  /// Launches the kernels that check gradients and `statistics` for finite values and then make the updates if the
  /// verdict allows them. `addresses.numbers`: the numbers of the step, followed by those of each optimizer; their
  /// step_offset is the number of the optimizer's updates since the capture. Throws AutogradError unless the same
  /// parameters have gradients as in the last update.
  void launch(const StepAddresses& addresses, std::span<const Tensor> statistics);
  /// Returns, for each parameter, whether it had a gradient in the last update of its optimizer. next() and
  /// next_after() leave the others out.
  std::vector<bool> had_gradients() const;
  /// Returns the number of updates that each optimizer has made.
  std::vector<std::int64_t> counts() const;
  /// Number of parameters that had a gradient in the last update.
  std::size_t updated_parameters() const;
  /// Call it after the device has committed the oldest update in flight: counts the update and stores the new largest
  /// magnitudes. `extremes`: one per parameter.
  void committed(std::span<const BlockExtremes> extremes);

 private:
  /// `ahead`: number of updates in flight before this one.
  static void add_slices(Optimizer& optimizer, const StepInput& input, std::int64_t ahead, DeviceUpdate& update);

  std::vector<Optimizer*> optimizers_;
};

}  // namespace binade::optim
