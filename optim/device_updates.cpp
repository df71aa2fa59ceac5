#include "binade/optim/device_updates.h"

#include <algorithm>
#include <limits>

#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/optim/averaged_weights.h"

namespace binade::optim {

bool DeviceUpdates::possible() const {
  return optimizer_.device_can_decide() && optimizer_.bounds_.apply(optimizer_.updates_) &&
         optimizer_.had_gradient_.size() == optimizer_.parameters_.size() &&
         optimizer_.parameters_.low_copies_are_written() && !AveragedWeights::in_place(optimizer_.parameters_);
}

std::vector<UpdateSlice> DeviceUpdates::slices(const StepInput& input, std::int64_t ahead) {
  std::vector<const float*> gradients(optimizer_.parameters_.size(), nullptr);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (optimizer_.had_gradient_[i]) gradients[i] = optimizer_.parameters_.gradient_of(i).data<float>();
  return optimizer_.update_slices(input, gradients, ahead);
}

DeviceUpdate DeviceUpdates::next(const StepInput& given) {
  const StepInput input = optimizer_.numbered(given);
  DeviceUpdate update{.input = input, .slices = slices(input, 0)};
  for (std::size_t i = 0; i < update.slices.size(); ++i)
    update.gradient_limits.push_back(optimizer_.had_gradient_[i] ? optimizer_.bounds_.gradient_limit(i, input, 1)
                                                                 : std::numeric_limits<double>::infinity());
  return update;
}

std::optional<DeviceUpdate> DeviceUpdates::next_after(std::span<const DeviceUpdate* const> in_flight,
                                                      const StepInput& given) {
  constexpr double kShare = 1.0 / 16;
  const StepInput input = optimizer_.numbered(given, static_cast<std::int64_t>(in_flight.size()));
  const UpdateBounds& bounds = optimizer_.bounds_;
  DeviceUpdate update{.input = input, .slices = slices(input, static_cast<std::int64_t>(in_flight.size()))};
  for (std::size_t i = 0; i < update.slices.size(); ++i) {
    double& limit = update.gradient_limits.emplace_back(std::numeric_limits<double>::infinity());
    if (!optimizer_.had_gradient_[i]) continue;
    limit = bounds.gradient_limit(i, input, kShare);
    Magnitudes most = bounds.known()[i];
    for (const DeviceUpdate* before : in_flight)
      most = bounds.after(most, i, before->gradient_limits[i], before->input);
    if (limit < 0 || !bounds.within(bounds.after(most, i, limit, input), i)) return std::nullopt;
  }
  return update;
}

void DeviceUpdates::launch(const StepAddresses& addresses, std::span<const Tensor> statistics) {
  FlatParameters& parameters = optimizer_.parameters_;
  std::vector<const float*> values = parameters.gradients();
  for (std::size_t i = 0; i < values.size(); ++i)
    check<AutogradError>(
        (values[i] != nullptr) == optimizer_.had_gradient_[i],
        "{}: {} got {} gradient, unlike in the step before; a recorded step has the same ops each time",
        optimizer_.kind_, parameters.slices()[i].name, values[i] != nullptr ? "a" : "no");
  std::vector<FlatBlock> blocks = parameters.blocks();
  for (const Tensor& tensor : statistics) {
    const auto slice = static_cast<std::int32_t>(values.size());
    values.push_back(tensor.data<float>());
    for (std::int64_t begin = 0; begin < tensor.numel(); begin += kFlatBlock)
      blocks.push_back({slice, static_cast<std::int32_t>(std::min(kFlatBlock, tensor.numel() - begin)), begin});
  }
  const KernelTable& table = kernels(parameters.device());
  table.decide({addresses, blocks, values});
  table.decided_update({addresses, optimizer_.update_arguments()});
}

std::size_t DeviceUpdates::updated_parameters() const {
  return static_cast<std::size_t>(std::ranges::count(optimizer_.had_gradient_, true));
}

void DeviceUpdates::committed(std::span<const BlockExtremes> extremes) {
  std::vector<Magnitudes> magnitudes = optimizer_.bounds_.known();
  for (std::size_t i = 0; i < magnitudes.size(); ++i)
    if (optimizer_.had_gradient_[i]) magnitudes[i] = magnitudes_of(extremes[i]);
  optimizer_.count_update(std::move(magnitudes));
}

}  // namespace binade::optim
