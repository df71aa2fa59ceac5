#include "binade/autograd/recompute.h"

#include "binade/autograd/apply.h"
#include "binade/autograd/trained_scope.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

constexpr OpInfo kInfo{.name = "recompute", .slices = true};

using Segment = std::function<Variable(const Variable&)>;

/// Restores the step context in which the segment first ran, so that it runs again with the same tape indices.
class ContextScope : ScopedValue<StepContext> {
 public:
  explicit ContextScope(const StepContext& context) : ScopedValue(step_context(), context) {
    step_context().recomputing = true;
  }
};

class RecomputeNode final : public Node {
 public:
  RecomputeNode(OpContext context, std::vector<Edge> edges, Segment segment, StepContext start, const Variable& x)
      : Node(kInfo, std::move(context), std::move(edges), 1),
        segment_(std::move(segment)),
        start_(std::move(start)),
        policy_(current_policy()),
        input_needs_grad_(x.requires_grad()),
        input_is_leaf_(x.is_leaf()),
        input_is_frozen_(x.is_leaf() && !x.requires_grad() && x.state()->parameter) {}

  void backward(std::span<const Tensor> gy, GradSink& gx) override {
    const ContextScope at_start(start_);
    const PolicyScope policy(policy_);
    const GradGuard grad;
    const Variable x(context_.saved(0, kInfo.name), input_needs_grad_);
    x.state()->recomputed = true;
    x.state()->activation = !input_is_leaf_;
    x.state()->parameter = input_is_frozen_;  // ops then read it without a recorded cast, as in the first run
    const Variable y = segment_(x);
    if (!y.requires_grad()) return;  // the result does not depend on any trained variable
    binade::backward(y, gy[0]);
    const Tensor gradient = x.grad();
    if (gx.needs(0) && gradient.defined()) gx.set(0, gradient.to(context_.inputs[0].grad_dtype));
  }

 private:
  Segment segment_;
  StepContext start_;
  PrecisionPolicy policy_;
  bool input_needs_grad_, input_is_leaf_, input_is_frozen_;
};

}  // namespace

Variable recompute(Segment segment, const Variable& x) {
  if (!grad_enabled()) return segment(x);
  const StepContext start = step_context();
  Variable y;
  bool trained = x.requires_grad();
  {
    const NoGradGuard no_grad;
    const detail::TrainedScope scope;
    y = segment(x);
    trained = trained || scope.found();
  }
  if (!trained) return y;  // no gradient is needed: the result depends on data only
  OpContext context;
  context.grad_enabled = true;
  context.save(x.value());
  context.inputs = {detail::input_of(x, x.value())};
  auto node = std::make_shared<RecomputeNode>(std::move(context), std::vector<Edge>{detail::edge_to(x)},
                                              std::move(segment), start, x);
  return std::move(detail::Application::wrap({y.value()}, node, 0).front());
}

}  // namespace binade
