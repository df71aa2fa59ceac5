#include "binade/autograd/hooks.h"

#include "binade/autograd/apply.h"
#include "binade/autograd/node.h"
#include "binade/autograd/observer.h"
#include "binade/autograd/variable.h"
#include "binade/core/error.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

std::atomic<std::int64_t> g_live_hooks{0};

constexpr OpInfo kInfo{.name = "gradient_hook", .slices = true};

/// Passes a gradient through hooks. It is not an op: it has the tape index of the op before it, and observers do not
/// see it, so that hooks change neither random numbers nor reports.
class HookNode final : public Node {
 public:
  HookNode(OpContext context, Edge edge, std::shared_ptr<const VariableHooks> hooks)
      : Node(kInfo, std::move(context), {std::move(edge)}, 1), hooks_(std::move(hooks)) {}

  bool observed() const override { return false; }
  void backward(std::span<const Tensor> gy, GradSink& gx) override {
    const ScopedValue<OpNumbers> numbers(step_context().next, step_context().next);
    const NoObserverScope unseen;
    Tensor gradient = gy[0];
    hooks_->list.for_each([&](const GradientHook& hook) {
      const Variable changed = hook(Variable(gradient));
      if (!changed.defined() || !changed.value().defined()) return;
      check<AutogradError>(changed.shape() == gradient.shape() && changed.dtype() == gradient.dtype() &&
                               changed.device() == gradient.device(),
                           "gradient hook{}: wanted a gradient {} {}, got {} {}",
                           module_path().empty() ? "" : " [" + module_path() + "]", name_of(gradient.dtype()),
                           gradient.shape(), name_of(changed.dtype()), changed.shape());
      gradient = changed.value();
    });
    if (gx.needs(0)) gx.set(0, gradient);
  }

 private:
  std::shared_ptr<const VariableHooks> hooks_;
};

/// Returns a node for the ops that read `x` from now on. It passes the gradient through the hooks and on to `edge`.
std::shared_ptr<Node> hook_node(const Variable& x, Edge edge, std::shared_ptr<const VariableHooks> hooks) {
  OpContext context;
  context.grad_enabled = true;
  context.inputs = {detail::input_of(x, x.value())};
  const Node* maker = edge.node.get();
  const ScopedValue<std::int64_t> index(step_context().next.tape_index,
                                        maker != nullptr ? maker->tape_index() + 1 : step_context().next.tape_index);
  const ModulePathScope path(maker != nullptr ? maker->module_path() : x.state()->name);
  return std::make_shared<HookNode>(std::move(context), std::move(edge), std::move(hooks));
}

}  // namespace

std::int64_t live_hooks() { return g_live_hooks; }
detail::LiveHook::LiveHook() { ++g_live_hooks; }
detail::LiveHook::~LiveHook() { --g_live_hooks; }

HookHandle detail::add_gradient_hook(const Variable& x, GradientHook hook) {
  check<AutogradError>(
      x.requires_grad(),
      "register_hook: the variable has no gradient; no parameter led to it, or it was computed under a "
      "NoGradGuard");
  Variable::State& s = *x.state();
  if (!s.hooks) {
    s.hooks = std::make_shared<VariableHooks>();
    if (!x.is_leaf()) {
      s.node = hook_node(x, {s.node, s.output, nullptr}, s.hooks);
      s.output = 0;
    }
  }
  return s.hooks->list.add(std::move(hook));
}

Variable with_gradient_hook(const Variable& x, GradientHook hook) {
  if (!x.requires_grad() || !grad_enabled()) return x;
  const auto hooks = std::make_shared<VariableHooks>();
  hooks->list.add(std::move(hook));
  Variable y(x.value());
  y.state()->requires_grad = true;
  y.state()->node = hook_node(x, detail::edge_to(x), hooks);
  return y;
}

Edge detail::edge_to_hooked_leaf(const Variable& x) {
  Variable::State& leaf = *x.state();
  if (leaf.hooks->list.empty() || !grad_enabled()) return {nullptr, 0, x.state()};
  std::shared_ptr<Node> node = leaf.hooks->node.lock();
  if (!node || node->released()) {
    node = hook_node(x, {nullptr, 0, x.state()}, leaf.hooks);
    leaf.hooks->node = node;
  }
  return {node, 0, nullptr};
}

}  // namespace binade
