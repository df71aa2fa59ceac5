#include "binade/optim/device_updates.h"

#include <algorithm>
#include <limits>

#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/optim/averaged_weights.h"

namespace binade::optim {

bool DeviceUpdates::possible() const {
  return std::ranges::all_of(optimizers_, [](Optimizer* one) {
    return one->device_can_decide() && one->bounds_.apply(one->updates_) &&
           one->had_gradient_.size() == one->parameters_.size() && one->parameters_.low_copies_are_written() &&
           !AveragedWeights::in_place(one->parameters_);
  });
}

void DeviceUpdates::add_slices(Optimizer& optimizer, const StepInput& input, std::int64_t ahead, DeviceUpdate& update) {
  std::vector<const float*> gradients(optimizer.parameters_.size(), nullptr);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (optimizer.had_gradient_[i]) gradients[i] = optimizer.parameters_.gradient_of(i).data<float>();
  const std::vector<UpdateSlice> slices = optimizer.update_slices(input, gradients, ahead);
  update.slices.insert(update.slices.end(), slices.begin(), slices.end());
  update.inputs.push_back(input);
}

DeviceUpdate DeviceUpdates::next(std::span<const StepInput> given) {
  DeviceUpdate update;
  for (std::size_t o = 0; o < optimizers_.size(); ++o) {
    Optimizer& one = *optimizers_[o];
    const StepInput input = one.numbered(given[o]);
    add_slices(one, input, 0, update);
    for (std::size_t i = 0; i < one.parameters_.size(); ++i)
      update.gradient_limits.push_back(one.had_gradient_[i] ? one.bounds_.gradient_limit(i, input, 1)
                                                            : std::numeric_limits<double>::infinity());
  }
  return update;
}

std::optional<DeviceUpdate> DeviceUpdates::next_after(std::span<const DeviceUpdate* const> in_flight,
                                                      std::span<const StepInput> given) {
  constexpr double kShare = 1.0 / 16;
  const auto ahead = static_cast<std::int64_t>(in_flight.size());
  DeviceUpdate update;
  for (std::size_t o = 0; o < optimizers_.size(); ++o) {
    Optimizer& one = *optimizers_[o];
    const StepInput input = one.numbered(given[o], ahead);
    add_slices(one, input, ahead, update);
    for (std::size_t i = 0; i < one.parameters_.size(); ++i) {
      const std::size_t at = update.gradient_limits.size();
      double& limit = update.gradient_limits.emplace_back(std::numeric_limits<double>::infinity());
      if (!one.had_gradient_[i]) continue;
      limit = one.bounds_.gradient_limit(i, input, kShare);
      Magnitudes most = one.bounds_.known()[i];
      for (const DeviceUpdate* before : in_flight)
        most = one.bounds_.after(most, i, before->gradient_limits[at], before->inputs[o]);
      if (limit < 0 || !one.bounds_.within(one.bounds_.after(most, i, limit, input), i)) return std::nullopt;
    }
  }
  return update;
}

void DeviceUpdates::launch(const StepAddresses& addresses, std::span<const Tensor> statistics) {
  std::vector<const float*> values;
  std::vector<FlatBlock> blocks;
  for (Optimizer* one : optimizers_) {
    const std::vector<const float*> gradients = one->parameters_.gradients();
    for (std::size_t i = 0; i < gradients.size(); ++i)
      check<AutogradError>(
          (gradients[i] != nullptr) == one->had_gradient_[i],
          "{}: {} got {} gradient, unlike in the step before; a recorded step has the same ops each time", one->kind_,
          one->parameters_.slices()[i].name, gradients[i] != nullptr ? "a" : "no");
    append_blocks(blocks, one->parameters_.blocks(), values.size());
    values.insert(values.end(), gradients.begin(), gradients.end());
  }
  for (const Tensor& tensor : statistics) {
    const auto slice = static_cast<std::int32_t>(values.size());
    values.push_back(tensor.data<float>());
    for (std::int64_t begin = 0; begin < tensor.numel(); begin += kFlatBlock)
      blocks.push_back({slice, static_cast<std::int32_t>(std::min(kFlatBlock, tensor.numel() - begin)), begin});
  }
  const KernelTable& table = kernels(optimizers_.front()->parameters_.device());
  table.decide({addresses, blocks, values});
  StepAddresses own = addresses;
  for (Optimizer* one : optimizers_) {
    ++own.numbers;
    table.decided_update({own, one->update_arguments()});
    own.slices += one->parameters_.size();
    own.extremes += one->parameters_.size();
  }
}

std::vector<bool> DeviceUpdates::had_gradients() const {
  std::vector<bool> all;
  for (const Optimizer* one : optimizers_) all.insert(all.end(), one->had_gradient_.begin(), one->had_gradient_.end());
  return all;
}

std::vector<std::int64_t> DeviceUpdates::counts() const {
  std::vector<std::int64_t> all;
  for (const Optimizer* one : optimizers_) all.push_back(one->updates_);
  return all;
}

std::size_t DeviceUpdates::updated_parameters() const {
  std::size_t count = 0;
  for (const Optimizer* one : optimizers_)
    count += static_cast<std::size_t>(std::ranges::count(one->had_gradient_, true));
  return count;
}

void DeviceUpdates::committed(std::span<const BlockExtremes> extremes) {
  for (Optimizer* one : optimizers_) {
    std::vector<Magnitudes> magnitudes = one->bounds_.known();
    for (std::size_t i = 0; i < magnitudes.size(); ++i)
      if (one->had_gradient_[i]) magnitudes[i] = magnitudes_of(extremes[i]);
    extremes = extremes.subspan(one->parameters_.size());
    one->count_update(std::move(magnitudes));
  }
}

}  // namespace binade::optim
