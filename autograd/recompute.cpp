#include "binade/autograd/recompute.h"

#include <algorithm>

#include "binade/autograd/apply.h"
#include "binade/autograd/trained_scope.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

constexpr OpInfo kInfo{.name = "recompute", .slices = true};
constexpr OpInfo kRootInfo{.name = "recompute results"};

using Segment = std::function<std::vector<Variable>(std::span<const Variable>)>;

/// Restores the step context in which the segment first ran, so that it runs again with the same tape indices.
class ContextScope : ScopedValue<StepContext> {
 public:
  explicit ContextScope(const StepContext& context) : ScopedValue(step_context(), context) {
    step_context().recomputing = true;
  }
};

/// Passes each of several results its own gradient, so that one backward serves all of them.
class RootNode final : public Node {
 public:
  RootNode(OpContext context, std::vector<Edge> edges, std::vector<Tensor> gradients)
      : Node(kRootInfo, std::move(context), std::move(edges), 1), gradients_(std::move(gradients)) {}
  void backward(std::span<const Tensor>, GradSink& gx) override {
    for (std::size_t i = 0; i < gradients_.size(); ++i) gx.set(static_cast<int>(i), gradients_[i]);
  }
  bool observed() const override { return false; }

 private:
  std::vector<Tensor> gradients_;
};

/// Runs backward from several results, each with its own gradient.
void backward_of_all(const std::vector<Variable>& results, std::vector<Tensor> gradients) {
  if (results.size() == 1) return backward(results[0], gradients[0]);
  OpContext context;
  context.grad_enabled = true;
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < results.size(); ++i) {
    context.inputs.push_back(detail::input_of(results[i], results[i].value()));
    edges.push_back(detail::edge_to(results[i]));
    gradients[i] = gradients[i].to(results[i].dtype());
  }
  const auto node = std::make_shared<RootNode>(std::move(context), std::move(edges), std::move(gradients));
  const Tensor one = Tensor::full({}, 1, DType::f32, results[0].value().device());
  backward(detail::Application::wrap({one}, node, 0).front(), one);
}

class RecomputeNode final : public Node {
 public:
  RecomputeNode(OpContext context, std::vector<Edge> edges, int outputs, Segment segment, StepContext start,
                const std::vector<Variable>& inputs)
      : Node(kInfo, std::move(context), std::move(edges), outputs),
        segment_(std::move(segment)),
        start_(std::move(start)),
        policy_(current_policy()) {
    for (const Variable& x : inputs)
      inputs_.push_back({.needs_grad = x.requires_grad(),
                         .is_leaf = x.is_leaf(),
                         .is_frozen = x.is_leaf() && !x.requires_grad() && x.state()->parameter});
  }

  void backward(std::span<const Tensor> gy, GradSink& gx) override {
    const ContextScope at_start(start_);
    const PolicyScope policy(policy_);
    const GradGuard grad;
    std::vector<Variable> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Variable x(context_.saved(static_cast<int>(i), kInfo.name), inputs_[i].needs_grad);
      x.state()->recomputed = true;
      x.state()->activation = !inputs_[i].is_leaf;
      x.state()->parameter = inputs_[i].is_frozen;  // ops then read it without a recorded cast, as in the first run
      inputs.push_back(x);
    }
    const std::vector<Variable> results = segment_(inputs);
    std::vector<Variable> roots;
    std::vector<Tensor> gradients;
    for (std::size_t i = 0; i < results.size(); ++i)
      if (results[i].requires_grad() && gy[i].defined()) {
        roots.push_back(results[i]);
        gradients.push_back(gy[i]);
      }
    if (roots.empty()) return;  // no result depends on a trained variable
    backward_of_all(roots, std::move(gradients));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int at = static_cast<int>(i);
      const Tensor gradient = inputs[i].grad();
      if (gx.needs(at) && gradient.defined()) gx.set(at, gradient.to(context_.inputs[i].grad_dtype));
    }
  }

 private:
  /// What an input of the segment was in the first run.
  struct Input {
    bool needs_grad = false, is_leaf = false, is_frozen = false;
  };
  Segment segment_;
  StepContext start_;
  PrecisionPolicy policy_;
  std::vector<Input> inputs_;
};

}  // namespace

std::vector<Variable> recompute(Segment segment, const std::vector<Variable>& inputs) {
  for (const Variable& x : inputs)
    check<ArgumentError>(x.defined(), "recompute: an input is undefined; capture it, or leave it out");
  if (!grad_enabled()) return segment(inputs);
  const StepContext start = step_context();
  std::vector<Variable> results;
  bool trained = std::ranges::any_of(inputs, [](const Variable& x) { return x.requires_grad(); });
  {
    const NoGradGuard no_grad;
    const detail::TrainedScope scope;
    results = segment(inputs);
    trained = trained || scope.found();
  }
  if (!trained) return results;  // no gradient is needed: the results depend on data only
  OpContext context;
  context.grad_enabled = true;
  std::vector<Edge> edges;
  for (const Variable& x : inputs) {
    context.save(x.value());
    context.inputs.push_back(detail::input_of(x, x.value()));
    edges.push_back(detail::edge_to(x));
  }
  std::vector<Tensor> values;
  std::uint32_t without_gradient = 0;
  check<ArgumentError>(results.size() <= 32, "recompute: wanted at most 32 results, got {}", results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    values.push_back(results[i].value());
    if (!is_floating(results[i].dtype())) without_gradient |= 1u << i;
  }
  const auto node = std::make_shared<RecomputeNode>(
      std::move(context), std::move(edges), static_cast<int>(results.size()), std::move(segment), start, inputs);
  return detail::Application::wrap(std::move(values), node, without_gradient);
}

Variable recompute(std::function<Variable(const Variable&)> segment, const Variable& x) {
  return recompute([segment = std::move(segment)](
                       std::span<const Variable> in) -> std::vector<Variable> { return {segment(in[0])}; },
                   std::vector<Variable>{x})
      .front();
}

}  // namespace binade
