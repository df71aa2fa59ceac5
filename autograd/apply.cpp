#include "binade/autograd/apply.h"

#include <optional>
#include <utility>

#include "binade/autograd/trained_scope.h"
#include "binade/core/ops/cast.h"
#include "binade/core/step_context.h"

namespace binade::detail {
namespace {

/// True if the precision policy may cast input `i` of the op: it is defined, floating and not excluded by
/// OpInfo::policy_inputs.
bool under_policy(const OpInfo& info, const Variable& input, std::size_t i) {
  return input.defined() && is_floating(input.dtype()) && (i >= 32 || (info.policy_inputs >> i & 1u) != 0);
}

OpPrecision precision_of(const OpInfo& info, std::span<const Variable> inputs) {
  constexpr std::size_t kFew = 8;  // ops with more inputs (concat) allocate
  DType few[kFew];
  std::vector<DType> many(inputs.size() > kFew ? inputs.size() : 0);
  DType* const dtypes = many.empty() ? few : many.data();
  std::size_t count = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (under_policy(info, inputs[i], i)) dtypes[count++] = inputs[i].dtype();
  if (count == 0) {  // indices only: the output has the dtype of the first input
    return {std::nullopt, inputs.empty() || !inputs[0].defined() ? DType::f32 : inputs[0].dtype()};
  }
  return compute_dtype(info.precision, {dtypes, count}, current_policy(), step_context().module_path, info.name);
}

/// True if input `i`, an f32 leaf that the policy does not cast, is read as a 16-bit copy, because GPU libraries
/// require it (OpInfo::low_on_gpu). Computed values are not copied, because backward would have to go through the cast.
bool low_on_gpu(const OpInfo& info, const Variable& x, std::size_t i, const OpPrecision& precision) {
  return i < 32 && (info.low_on_gpu >> i & 1u) != 0 && precision.read && is_half(*precision.read) &&
         x.dtype() == DType::f32 && x.is_leaf() && !x.state()->activation &&
         x.value().device().type == DeviceType::kCuda;
}

/// Returns how to recompute input `i`, x, from the pre-activation that its producer saved, if x is the result of an
/// activation that the producer applied.
std::optional<OpContext::Recomputable> recomputable_from(const Variable& x, int i) {
  const Node* maker = x.state()->node.get();
  if (maker == nullptr || x.state()->output != 0 || maker->released()) return {};
  const auto& derivative = maker->context().activation_derivative;
  if (!derivative.recomputable) return {};
  return OpContext::Recomputable{i, derivative.activation,
                                 maker->context().saved(derivative.saved, maker->info().name)};
}

bool is_parameter(const Variable& x) { return x.is_leaf() && x.requires_grad() && !x.state()->activation; }
/// True if x was computed from parameters alone: a filter in another layout, a normalized weight.
bool is_weight(const Variable& x) { return x.state()->node != nullptr && x.state()->node->computes_weights(); }
bool is_frozen_parameter(const Variable& x) { return x.is_leaf() && !x.requires_grad() && x.state()->parameter; }

/// Returns a leaf rounded to `dtype`. The copy is kept for later forwards, except on a GPU if the leaf is not trained,
/// because tensors made in a captured graph live only during the step.
Tensor low_copy_of(const Variable& x, DType dtype) {
  const bool kept = is_parameter(x) || x.value().device() == Device::cpu();
  return kept ? x.state()->low_copy(dtype) : x.value().to(dtype);
}

thread_local TrainedScope* trained_scope = nullptr;

}  // namespace

Observation observed(const OpInfo& info, ObservationScope& observation, std::span<const Tensor> results) {
  const auto scan = [&] {
    for (const Tensor& result : results) observe_into_scope(result);
  };
  if (info.observed == Observed::kByScan) scan();
  Observation seen = observation.take();
  if (info.observed != Observed::kByKernels || seen.any()) return seen;
  scan();
  return observation.take();
}

Edge edge_to(const Variable& x) {
  if (!x.requires_grad()) return {};
  if (x.is_leaf()) return x.state()->hooks ? edge_to_hooked_leaf(x) : Edge{nullptr, 0, x.state()};
  return {x.state()->node, x.state()->output, nullptr};
}

OpContext::Input input_of(const Variable& x, const Tensor& tensor) {
  const bool wide = is_parameter(x) && tensor.dtype() != DType::f64;
  return {.shape = tensor.shape(),
          .dtype = tensor.dtype(),
          .needs_grad = x.requires_grad() && grad_enabled(),
          .grad_dtype = wide ? DType::f32 : tensor.dtype(),
          .device = tensor.device()};
}

Application::Application(const OpInfo& info, std::span<const Variable> inputs) : info_(info), inputs_(inputs) {
  const OpPrecision precision = precision_of(info, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Variable x = inputs[i];
    OpContext::Input seen;
    bool wide = false;  // keeps the gradient of a weight in f32
    if (x.requires_grad()) TrainedScope::note();
    Tensor tensor;
    if (x.defined()) {
      check_gradient_of(x);
      tensor = x.value();
      if (precision.read && under_policy(info, x, i) && x.dtype() != *precision.read) {
        if (is_parameter(x) || is_frozen_parameter(x)) {
          tensor = low_copy_of(x, *precision.read);
        } else {
          wide = x.dtype() == DType::f32 && is_half(*precision.read) && is_weight(x);
          {
            const ScopedValue<std::int64_t> uncounted(step_context().next.call_index, step_context().next.call_index);
            x = apply_one<ops::Cast>({*precision.read}, {x});
          }
          tensor = x.value();
        }
      } else if (low_on_gpu(info, x, i, precision)) {
        tensor = low_copy_of(x, *precision.read);
      }
      seen = input_of(x, tensor);
      if (wide) seen.grad_dtype = DType::f32;
      if (auto recomputable = recomputable_from(x, static_cast<int>(i)))
        context_.recomputable.push_back(*std::move(recomputable));
    }
    context_.grad_enabled = context_.grad_enabled || (seen.needs_grad && info.differentiable);
    loses_gradient_ = loses_gradient_ || (trained_scope != nullptr && info.differentiable && x.defined() &&
                                          (x.requires_grad() || x.state()->lost_gradient));
    context_.inputs.push_back(seen);
    tensors_.push_back(std::move(tensor));
    if (grad_enabled()) edges_.push_back(edge_to(x));
  }
  check_inputs(info, tensors_);
  context_.store_dtype = precision.store;
  context_.tf32 = precision.tf32;
  tape_index_ = step_context().next.tape_index++;
  context_.rng = random_stream(RngPurpose::kDropout, step_context().next.call_index++);
}

TrainedScope::TrainedScope() : outer_(std::exchange(trained_scope, this)) {}

TrainedScope::~TrainedScope() {
  trained_scope = outer_;
  if (found_) note();
}

void TrainedScope::note() {
  if (trained_scope != nullptr) trained_scope->found_ = true;
}

void throw_no_memory(const OpInfo& info, std::string_view module_path) {
  throw OutOfMemoryError(fmt::format("{}{}: no memory for what it works with; use a smaller batch, image or context",
                                     info.name, module_path.empty() ? "" : fmt::format(" [{}]", module_path)));
}

OpCall Application::call() const {
  return {.info = info_,
          .module_path = step_context().module_path,
          .tape_index = tape_index_,
          .params = params_,
          .function_of = function_of_};
}

double Application::eps(double given) const {
  for (TapeObserver* observer : tape_observers()) given = observer->eps_of(call(), given);
  return given;
}

double Application::scalar(double given) const {
  for (TapeObserver* observer : tape_observers()) given = observer->scalar_of(call(), given);
  return given;
}

void Application::before() {
  for (TapeObserver* observer : tape_observers()) observer->before_forward(call(), inputs_, tensors_);
}

void Application::after(Tensors& outputs, ObservationScope& observation) {
  const Observation seen = observed(info_, observation, outputs);
  for (TapeObserver* observer : tape_observers()) observer->after_forward(call(), tensors_, outputs, seen);
}

void Application::check_gradient_of(const Variable& x) const {
  if (!x.state()->lost_gradient || trained_scope != nullptr || !grad_enabled() || !info_.differentiable) return;
  throw AutogradError(fmt::format(
      "{}: an input was computed in a recomputed segment and stored in a captured variable, so it has no gradient; "
      "return it from the segment (recompute() also takes functions that return several variables), or detach() it",
      where(info_.name)));
}

std::vector<Variable> Application::results(Tensors outputs, const std::shared_ptr<Node>& node,
                                           std::uint32_t non_differentiable) const {
  check<ArgumentError>(!outputs.empty(), "{}: forward returned no output; return at least one tensor",
                       where(info_.name));
  std::vector<Variable> variables = wrap(std::move(outputs), node, non_differentiable);
  if (loses_gradient_)
    for (std::size_t i = 0; i < variables.size(); ++i)
      variables[i].state()->lost_gradient = i >= 32 || (non_differentiable >> i & 1u) == 0;
  return variables;
}

std::vector<Variable> Application::wrap(Tensors outputs, const std::shared_ptr<Node>& node,
                                        std::uint32_t non_differentiable) {
  std::vector<Variable> variables;
  variables.reserve(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Variable y(std::move(outputs[i]));
    if (node && (i >= 32 || (non_differentiable >> i & 1u) == 0)) {
      y.state()->requires_grad = true;
      y.state()->node = node;
      y.state()->output = static_cast<int>(i);
    }
    variables.push_back(std::move(y));
  }
  return variables;
}

}  // namespace binade::detail
