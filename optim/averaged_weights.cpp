#include "binade/optim/averaged_weights.h"

#include <utility>

#include "binade/core/error.h"

namespace binade::optim {

AveragedWeights::AveragedWeights(Optimizer& optimizer) : parameters_(optimizer.parameters()) {
  if (optimizer.averages_weights()) put(optimizer.averaged_weights());
}

AveragedWeights::AveragedWeights(FlatParameters& parameters, const Tensor& averages) : parameters_(parameters) {
  put(averages);
}

void AveragedWeights::put(const Tensor& averages) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Variable::State& state = *parameters_.slices()[i].variable.state();
    kept_.push_back({state.value, state.low, state.low_version, std::exchange(state.low_place, {})});
    state.forget_copies();
    state.value = parameters_.view(averages, i);
  }
}

bool AveragedWeights::in_place(const FlatParameters& parameters) {
  // FlatParameters gives each f32 weight a place for its 16-bit copy. Averages, which are f32, have none.
  const Variable::State& state = *parameters.slices().front().variable.state();
  return state.value.dtype() == DType::f32 && state.low_place.buffer == nullptr;
}

void AveragedWeights::refuse(const FlatParameters& parameters, std::string_view what, std::string_view advice) {
  check<AutogradError>(!in_place(parameters), "{}: not possible while averaged weights are in the model; {}", what,
                       advice);
}

AveragedWeights::~AveragedWeights() {
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    Variable::State& state = *parameters_.slices()[i].variable.state();
    state.forget_copies();
    state.value = kept_[i].value;
    state.low = kept_[i].low;
    state.low_version = kept_[i].low_version;
    state.low_place = kept_[i].low_place;
  }
}

}  // namespace binade::optim
