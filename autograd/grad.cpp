#include "binade/autograd/grad.h"

#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <unordered_set>

#include "binade/autograd/apply.h"
#include "binade/autograd/collecting_sink.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/trace.h"
#include "binade/core/error.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

/// Identifies a variable on the tape: an output of a node, or a leaf (output -1).
using Key = std::pair<const void*, int>;
Key key_of(const Edge& edge) { return edge.leaf ? Key{edge.leaf.get(), -1} : Key{edge.node.get(), edge.output}; }

/// The nodes between the outputs and the inputs of a call of grad().
class Paths {
 public:
  Paths(const Variables& outputs, const Variables& inputs) {
    std::vector<std::shared_ptr<Node>> roots;
    for (const Variable& y : outputs) {
      roots.push_back(y.state()->node);
      reached_.insert(key_of(detail::edge_to(y)));
    }
    for (const Variable& x : inputs) targets_.insert(key_of(detail::edge_to(x)));
    nodes_ = nodes_after(first_order(inputs), roots);
    for (const auto& node : nodes_) node->check_not_released();         // a released node has lost its edges
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {  // producers first
      bool leads = false;
      for (const Edge& edge : (*node)->edges()) leads = leads || needs(edge);
      if (leads) leading_.insert(node->get());
    }
    std::erase_if(nodes_, [this](const auto& node) { return !leading_.contains(node.get()); });
    for (const auto& node : nodes_)
      for (const Edge& edge : node->edges()) reached_.insert(key_of(edge));
  }

  /// The nodes through which a gradient passes to an input, the last executed one first.
  std::vector<std::shared_ptr<Node>>& nodes() { return nodes_; }
  /// True if the variable at `edge` is an input of grad() or was computed from one.
  bool needs(const Edge& edge) const {
    return targets_.contains(key_of(edge)) || (edge.node && leading_.contains(edge.node.get()));
  }
  std::vector<bool> needed_inputs(const Node& node) const {
    std::vector<bool> needed;
    for (const Edge& edge : node.edges()) needed.push_back((edge.node || edge.leaf) && needs(edge));
    return needed;
  }
  bool reached(const Variable& x) const { return reached_.contains(key_of(detail::edge_to(x))); }
  bool is_target(const Key& key) const { return targets_.contains(key); }

 private:
  /// Returns the lowest order() of the inputs' nodes; a node whose order is not higher depends on no input. Returns
  /// nullopt if an input is a leaf, because any node may read a leaf.
  static std::optional<std::uint64_t> first_order(const Variables& inputs) {
    std::optional<std::uint64_t> first;
    for (const Variable& x : inputs) {
      const Edge edge = detail::edge_to(x);
      if (edge.leaf || !edge.node) return std::nullopt;
      first = std::min(edge.node->order(), first.value_or(edge.node->order()));
    }
    return first;
  }
  /// Like reachable_nodes(), but does not visit nodes up to order `first`, which may be a long history of the inputs.
  static std::vector<std::shared_ptr<Node>> nodes_after(std::optional<std::uint64_t> first,
                                                        const std::vector<std::shared_ptr<Node>>& roots) {
    if (!first) return reachable_nodes(roots);
    std::vector<std::shared_ptr<Node>> nodes;
    std::unordered_set<const Node*> seen;
    const auto add = [&](const std::shared_ptr<Node>& node) {
      if (node && node->order() > *first && seen.insert(node.get()).second) nodes.push_back(node);
    };
    for (const std::shared_ptr<Node>& root : roots) add(root);
    for (std::size_t next = 0; next < nodes.size(); ++next)
      for (const Edge& edge : nodes[next]->edges()) add(edge.node);
    std::ranges::sort(nodes, [](const auto& a, const auto& b) { return a->order() > b->order(); });
    return nodes;
  }

  std::vector<std::shared_ptr<Node>> nodes_;
  std::unordered_set<const Node*> leading_;
  std::set<Key> targets_, reached_;
};

/// The gradients, summed so far, of variables on the tape.
class Gradients {
 public:
  explicit Gradients(bool recorded) : recorded_(recorded) {}

  void add(const Key& key, Variable gradient) {
    Sum& sum = sums_[key];
    if (!sum.gradient.defined()) {
      sum.gradient = std::move(gradient);
    } else if (recorded_) {
      sum.gradient = sum.gradient + gradient;
    } else {
      Tensor total = sum.owned ? sum.gradient.value() : sum.gradient.value().clone();
      accumulate(total, gradient.value());
      sum = {Variable(total), true};
    }
  }
  Variable at(const Key& key) const {
    const auto found = sums_.find(key);
    return found == sums_.end() ? Variable() : found->second.gradient;
  }
  void erase(const Key& key) { sums_.erase(key); }

 private:
  struct Sum {
    Variable gradient{};
    bool owned = false;  // true if nothing else reads the tensor
  };
  bool recorded_;
  std::map<Key, Sum> sums_;
};

/// Computes the gradients of a node's inputs with the op's backward, and notifies the observers of this thread.
Variables by_backward(Node& node, const Variables& gradients, const std::vector<bool>& needed) try {
  Tensors gy;
  for (const Variable& g : gradients) {
    const bool dense = !g.defined() || node.info().slices || g.value().contiguous();
    gy.push_back(!g.defined() ? Tensor() : dense ? g.value() : g.value().clone());
  }
  CollectingSink sink(node.context(), needed);
  const auto observers = node.observed() ? detail::tape_observers() : decltype(detail::tape_observers()){};
  const OpCall call{.info = node.info(),
                    .module_path = node.module_path(),
                    .tape_index = node.tape_index(),
                    .direction = Direction::kBackward};
  std::optional<ObservationScope> observation;
  if (!observers.empty()) observation.emplace();
  for (TapeObserver* observer : observers) observer->before_backward(call, gy);
  node.backward(gy, sink);
  if (!observers.empty()) {
    const Observation seen = detail::observed(node.info(), *observation, sink.gradients());
    for (TapeObserver* observer : observers) observer->after_backward(call, gy, sink.gradients(), seen);
  }
  Variables result;
  for (const Tensor& g : sink.gradients()) result.push_back(g.defined() ? Variable(g) : Variable());
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_no_memory(node.info(), node.module_path());
}

/// Computes the gradients of a node's inputs as recorded functions.
Variables by_derivative(const std::shared_ptr<Node>& node, Variables gradients, const std::vector<bool>& needed) {
  const ModulePathScope path(node->module_path());
  const OpContext& context = node->context();
  Variables result = derivatives::derivative_of(*node)(RecordedCall(node, std::move(gradients), needed));
  result.resize(needed.size());
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i] || !result[i].defined()) continue;
    const OpContext::Input& input = context.inputs[i];
    check<AutogradError>(result[i].shape() == input.shape,
                         "{}: its derivative returned a gradient of shape {} for input {} of shape {}",
                         where(node->info().name), result[i].shape(), i, input.shape);
    result[i] = cast(result[i], input.grad_dtype);
  }
  return result;
}

Variable first_gradient(const Variable& y, const GradOptions& options, std::size_t i) {
  if (options.grad_outputs.empty()) {
    check<ShapeError>(
        y.value().numel() == 1,
        "grad: wanted outputs of one element, got shape {}; sum or average it first, or pass grad_outputs", y.shape());
    return Tensor::full(y.shape(), 1, y.dtype(), y.device());
  }
  const Variable& g = options.grad_outputs[i];
  check<ShapeError>(g.defined() && g.shape() == y.shape(), "grad: wanted grad_outputs[{}] of shape {}, got {}", i,
                    y.shape(), g.defined() ? g.shape().to_string() : "an undefined variable");
  return options.create_graph ? cast(g, y.dtype()) : Variable(g.value().to(y.dtype()));
}

void check_arguments(const Variables& outputs, const Variables& inputs, const GradOptions& options) {
  for (const Variable& y : outputs)
    check<AutogradError>(y.requires_grad(),
                         "grad: the output has no history; no trained variable led to it, or it was computed under a "
                         "NoGradGuard");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    check<AutogradError>(inputs[i].requires_grad(),
                         "grad: wanted inputs that require a gradient, got input {} without; make it with "
                         "Variable(tensor, true) before the outputs are computed",
                         i);
  check<ArgumentError>(options.grad_outputs.empty() || options.grad_outputs.size() == outputs.size(),
                       "grad: wanted one of grad_outputs for each output, got {} for {} outputs",
                       options.grad_outputs.size(), outputs.size());
}

void check_node(const Node& node, bool create_graph) {
  const std::string name = node.module_path().empty() ? node.info().name
                                                      : fmt::format("{} [{}]", node.info().name, node.module_path());
  if (!node.observed()) {
    check<AutogradError>(!create_graph,
                         "{}: a gradient hook gets tensors, so its result cannot be differentiated again "
                         "(create_graph); remove the hook",
                         name);
    return;
  }
  check<AutogradError>(node.params() != nullptr,
                       "{}: grad() cannot pass through a recomputed segment; call the segment without recompute()",
                       name);
  if (create_graph) derivatives::derivative_of(node);
}

Variable result_for(const Variable& x, std::size_t i, const Paths& paths, const Gradients& gradients,
                    const GradOptions& options) {
  Variable gradient = gradients.at(key_of(detail::edge_to(x)));
  if (gradient.defined()) return gradient;
  const bool reached = paths.reached(x);
  check<AutogradError>(
      reached || options.allow_unused,
      "grad: no output depends on input {}{}; compute the outputs from it, outside recompute(), or pass "
      "allow_unused",
      i, x.state()->name.empty() ? "" : ", " + x.state()->name);
  if (!reached) return {};
  return Tensor::zeros(x.shape(), detail::input_of(x, x.value()).grad_dtype, x.device());
}

}  // namespace

Variables grad(const Variables& outputs, const Variables& inputs, const GradOptions& options) {
  check_arguments(outputs, inputs, options);
  Paths paths(outputs, inputs);
  for (const auto& node : paths.nodes()) check_node(*node, options.create_graph);
  std::optional<GradGuard> recording;
  std::optional<NoGradGuard> no_recording;
  options.create_graph ? void(recording.emplace()) : void(no_recording.emplace());

  Gradients gradients(options.create_graph);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    gradients.add(key_of(detail::edge_to(outputs[i])), first_gradient(outputs[i], options, i));
  for (std::shared_ptr<Node>& node : paths.nodes()) {
    Variables gy;
    for (int output = 0; output < node->outputs(); ++output) {
      const Key key{node.get(), output};
      gy.push_back(gradients.at(key));
      if (!paths.is_target(key)) gradients.erase(key);
    }
    if (std::ranges::any_of(gy, &Variable::defined)) {
      const std::vector<bool> needed = paths.needed_inputs(*node);
      Variables gx = options.create_graph ? by_derivative(node, std::move(gy), needed) : by_backward(*node, gy, needed);
      for (std::size_t i = 0; i < needed.size(); ++i)
        if (needed[i] && gx[i].defined()) gradients.add(key_of(node->edges()[i]), std::move(gx[i]));
    }
    if (!options.create_graph && !options.retain_graph) node->release();
  }
  Variables results;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    results.push_back(result_for(inputs[i], i, paths, gradients, options));
  return results;
}

Variables grad(const Variable& output, const Variables& inputs, const GradOptions& options) {
  return grad(Variables{output}, inputs, options);
}

Variable grad(const Variable& output, const Variable& input, const GradOptions& options) {
  return std::move(grad(Variables{output}, Variables{input}, options).front());
}

}  // namespace binade
