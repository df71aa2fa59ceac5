#include "binade/optim/custom_optimizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "binade/autograd/observer.h"
#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"

namespace binade::optim {
namespace {

/// The context in which the user's code for an update runs: no tape, no observers, f32, random numbers of the step.
class UpdateScope {
 public:
  explicit UpdateScope(std::int64_t update) : context_(step_context()), policy_(PrecisionPolicy{}) {
    step_context().step = static_cast<std::uint64_t>(update);
    step_context().micro_batch = std::numeric_limits<std::uint32_t>::max();  // no micro-batch draws the same numbers
    step_context().next = {};
    step_context().module_path = "optimizer";
  }
  ~UpdateScope() { step_context() = std::move(context_); }
  UpdateScope(const UpdateScope&) = delete;
  UpdateScope& operator=(const UpdateScope&) = delete;

 private:
  StepContext context_;
  NoGradGuard no_grad_;
  PolicyScope policy_;
  NoObserverScope unseen_;
};

std::vector<FlatBlock> blocks_of(std::int64_t count) {
  std::vector<FlatBlock> blocks;
  for (std::int64_t begin = 0; begin < count; begin += kFlatBlock)
    blocks.push_back({0, static_cast<std::int32_t>(std::min(kFlatBlock, count - begin)), begin});
  return blocks;
}

/// Returns the bits of the largest magnitude of an f32 tensor.
std::uint32_t largest_of(const Tensor& tensor) {
  const std::vector<FlatBlock> blocks = blocks_of(tensor.numel());
  std::vector<BlockScan> results(blocks.size());
  const float* const values[] = {tensor.data<float>()};
  kernels(tensor.device()).scan({blocks, values, results});
  std::uint32_t largest = 0;
  for (const BlockScan& result : results) largest = std::max(largest, result.largest);
  return largest;
}

/// Returns a result of the user's code as a dense tensor. Throws ArgumentError unless it has the shape, dtype and
/// device of `old`.
Tensor checked(const std::string& kind, const std::string& parameter, std::string_view what, const Variable& result,
               const Tensor& old) {
  check<ArgumentError>(result.defined() && result.dtype() == DType::f32 && result.shape() == old.shape() &&
                           result.device() == old.device(),
                       "{}: update() of {} wanted a new {} in f32 {}, got {}", kind, parameter, what, old.shape(),
                       result.defined() ? fmt::format("{} {}", name_of(result.dtype()), result.shape()) : "none");
  return result.value().contiguous_copy();
}

}  // namespace

Variable& ParameterUpdate::state(std::string_view state_name) {
  const auto found = std::ranges::find(states, state_name, &std::pair<std::string, Variable>::first);
  check<ArgumentError>(found != states.end(), "optimizer: {} has no state tensor '{}'; list it in the settings", name,
                       state_name);
  return found->second;
}

CustomOptimizer::StateList::StateList(std::initializer_list<const char*> names)
    : list_([names = std::vector<std::string>(names.begin(), names.end())](const std::string&, const Shape& shape) {
        std::vector<StateTensor> tensors;
        for (const std::string& name : names) tensors.push_back({name, shape});
        return tensors;
      }) {}

CustomOptimizer::CustomOptimizer(std::vector<NamedParameter> parameters, const CustomSettings& settings)
    : Optimizer(std::move(parameters), {.kind = settings.kind,
                                        .rule = rules::Assign{},
                                        .lr = settings.lr,
                                        .decays = settings.decays,
                                        .groups = settings.groups,
                                        .maximize = settings.maximize}),
      states_(parameters_.size()),
      largest_states_(parameters_.size(), 0) {
  static constexpr std::string_view kReservedNames[] = {"kind",   "updates",   "parameter_updates",
                                                        "groups", "schedules", "ema"};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const FlatParameters::Slice& slice = parameters_.slices()[i];
    for (const StateTensor& tensor : settings.state.of(slice.name, slice.variable.shape())) {
      check<ArgumentError>(!tensor.name.empty() && tensor.name.find('/') == tensor.name.npos &&
                               std::ranges::find(kReservedNames, tensor.name) == std::end(kReservedNames) &&
                               std::ranges::find(states_[i], tensor.name, &State::name) == states_[i].end(),
                           "{}: '{}' cannot be the name of a state tensor of {}; use another, without a slash", kind(),
                           tensor.name, slice.name);
      states_[i].push_back({tensor.name, Tensor::zeros(tensor.shape, DType::f32, parameters_.device()), {}});
    }
  }
}

Magnitudes CustomOptimizer::bound(const Magnitudes& now, double, const UpdateTarget&) const {
  return {std::numeric_limits<double>::infinity(), now.moment1, now.moment2};
}

std::uint64_t CustomOptimizer::value_versions() const {
  std::uint64_t sum = 0;
  for (const FlatParameters::Slice& slice : parameters_.slices()) sum += slice.variable.value().version();
  return sum;
}

/// Gradients that differ in one bit, in a sign or in their order have different checksums (core/kernels/checksum.h).
std::uint64_t CustomOptimizer::gradient_checksum() {
  Tensor sum = Tensor::zeros({1}, DType::i64, parameters_.device());
  const std::vector<const float*> gradients = parameters_.gradients();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i] == nullptr) continue;
    const std::int64_t bytes = parameters_.slices()[i].count * static_cast<std::int64_t>(sizeof(float));
    kernels(parameters_.device())
        .checksum({gradients[i], bytes, i + 1, static_cast<std::uint64_t*>(sum.mutable_raw())});
  }
  return static_cast<std::uint64_t>(sum.on_host().data<std::int64_t>()[0]);
}

Optimizer::Pass CustomOptimizer::prepared(const StepInput& given) {
  const StepInput input = numbered(given);
  Pass pass = Optimizer::prepared(input);
  const Staged wanted{input, updates(), gradient_checksum(), value_versions()};
  if (staged_ != wanted) {
    staged_.reset();
    stage(input);
    staged_ = wanted;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!pass.updated[i]) continue;
    pass.slices[i].gradient = parameters_.view(staged_values_, i).data<float>();
    pass.slices[i].gradient_factor = 1;
    pass.slices[i].clip_value = 0;
    pass.slices[i].numbers.direction = 1;
    pass.largest[i].moment1 = largest_states_[i];
  }
  return pass;
}

/// Computes the update of every parameter into the staged tensors.
void CustomOptimizer::stage(const StepInput& input) {
  if (!staged_values_.defined()) staged_values_ = parameters_.allocate(DType::f32);
  for (std::vector<State>& states : states_)
    for (State& one : states) one.staged = Tensor();
  const UpdateScope scope(updates() + 1);
  const std::vector<const float*> gradients = parameters_.gradients();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (gradients[i] != nullptr) stage_parameter(i, input);
}

void CustomOptimizer::stage_parameter(std::size_t i, const StepInput& input) {
  const FlatParameters::Slice& slice = parameters_.slices()[i];
  const Variable::State& state = *slice.variable.state();
  ParameterUpdate u(slice.name, target_of(i, input, updates_per_parameter_[i] + 1));
  const Tensor old = state.value.dtype() == DType::f32 ? state.value.clone() : state.value.to(DType::f32);
  Tensor gradient = state.grad.clone();
  float* const values[] = {gradient.mutable_data<float>()};
  kernels(parameters_.device())
      .limit({blocks_of(gradient.numel()), values,
              static_cast<float>(input.inverse_scale * input.clip_factor * (maximize_ ? -1 : 1)),
              static_cast<float>(input.clip_value)});
  u.weight = old;
  u.gradient = gradient;
  for (const State& one : states_[i]) u.states.emplace_back(one.name, one.value.clone());
  update(u);

  parameters_.view(staged_values_, i).copy_from(checked(kind(), slice.name, "weight", u.weight, old));
  largest_states_[i] = 0;
  for (std::size_t k = 0; k < states_[i].size(); ++k) {
    State& one = states_[i][k];
    one.staged = checked(kind(), slice.name, one.name, std::exchange(u.states[k].second, {}), one.value);
    if (!one.staged.sole_owner()) one.staged = one.staged.clone();  // user code stored one tensor twice
    largest_states_[i] = std::max(largest_states_[i], largest_of(one.staged));
  }
}

void CustomOptimizer::written() {
  for (std::size_t i = 0; i < states_.size(); ++i)
    for (State& one : states_[i])
      if (one.staged.defined()) one.value = std::exchange(one.staged, Tensor());
  staged_.reset();
}

void CustomOptimizer::put_own_state(StateDict& state) const {
  for (std::size_t i = 0; i < states_.size(); ++i)
    for (const State& one : states_[i]) state.put(one.name + "/" + parameters_.slices()[i].name, one.value);
}

void CustomOptimizer::check_own_state(const StateDict& state) const {
  for (std::size_t i = 0; i < states_.size(); ++i)
    for (const State& one : states_[i]) {
      const std::string name = one.name + "/" + parameters_.slices()[i].name;
      const Tensor& saved = state.tensor(name);
      check<CheckpointError>(saved.shape() == one.value.shape() && saved.dtype() == DType::f32,
                             "{}: {} is {} {} in the checkpoint, f32 {} here", kind(), name, name_of(saved.dtype()),
                             saved.shape(), one.value.shape());
    }
}

void CustomOptimizer::load_own_state(const StateDict& state) {
  staged_.reset();
  for (std::size_t i = 0; i < states_.size(); ++i)
    for (State& one : states_[i]) {
      one.staged = Tensor();
      one.value = Tensor::empty(one.value.shape(), DType::f32, parameters_.device());
      one.value.copy_from(state.tensor(one.name + "/" + parameters_.slices()[i].name));
    }
}

}  // namespace binade::optim
