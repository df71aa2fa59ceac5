#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "binade/autograd/apply.h"
#include "binade/autograd/excluded_leaves.h"
#include "binade/autograd/gradient_owner.h"
#include "binade/autograd/inference_mode.h"
#include "binade/autograd/node.h"
#include "binade/autograd/observer.h"
#include "binade/autograd/trace.h"
#include "binade/autograd/variable.h"
#include "binade/core/error.h"

namespace binade {
namespace {

/// The gradients, summed so far, of the outputs of nodes whose backward has not run yet.
class Pending {
 public:
  /// `owned`: true if nothing else reads `gradient`, so that later contributions may be added into it.
  void add(const Edge& edge, Tensor gradient, bool owned) {
    std::vector<Gradient>& gradients = pending_[edge.node.get()];
    gradients.resize(static_cast<std::size_t>(edge.node->outputs()));
    Gradient& pending = gradients[static_cast<std::size_t>(edge.output)];
    if (!pending.tensor.defined()) {
      pending = {std::move(gradient), owned};
      return;
    }
    if (!pending.exclusive() && owned)
      std::swap(pending.tensor, gradient);  // adds into the owned tensor: a + b and b + a have the same bits
    if (!pending.exclusive() && !owned) pending.tensor = pending.tensor.clone();
    pending.owned = true;
    accumulate(pending.tensor, gradient);
  }

  /// Returns the gradient at `edge` if nothing else reads it; null if there is none or it is shared.
  const Tensor* unshared(const Edge& edge) const {
    const auto found = pending_.find(edge.node.get());
    if (found == pending_.end()) return nullptr;
    const Gradient& pending = found->second[static_cast<std::size_t>(edge.output)];
    return pending.tensor.defined() && pending.exclusive() ? &pending.tensor : nullptr;
  }

  /// The gradients of all outputs of a node, removed from the pending ones.
  struct Taken {
    Tensors gy;
    std::vector<bool> owned;  ///< true if nothing else reads gy[i]
  };
  Taken take(const Node* node) {
    const auto outputs = static_cast<std::size_t>(node->outputs());
    Taken taken{Tensors(outputs), std::vector<bool>(outputs)};
    const auto found = pending_.find(node);
    if (found == pending_.end()) return taken;
    for (std::size_t i = 0; i < outputs; ++i) {
      const Gradient& pending = found->second[i];
      if (!pending.tensor.defined()) continue;
      const bool copied = !node->info().slices && !pending.tensor.contiguous();
      taken.owned[i] = copied || pending.exclusive();
      taken.gy[i] = copied ? pending.tensor.clone() : pending.tensor;
    }
    pending_.erase(found);
    return taken;
  }

  /// For each node whose op set an activation derivative, counts the inputs of `nodes` that read its outputs.
  void count_readers(std::span<const std::shared_ptr<Node>> nodes) {
    for (const auto& node : nodes)
      for (const Edge& edge : node->edges())
        if (edge.node && edge.node->context().activation_derivative.activation != Activation::kNone)
          ++readers_[edge.node.get()];
  }
  /// True if the node at `edge` has an activation derivative and exactly one input of one op reads its output. The
  /// product of that op may then multiply the gradient by the derivative.
  bool may_have_derivative(const Edge& edge) const {
    const auto found = readers_.find(edge.node.get());
    return found != readers_.end() && found->second == 1 && edge.output == 0;
  }
  void set_multiplied(const Node* node) { multiplied_.insert(node); }
  bool multiplied(const Node* node) const { return multiplied_.contains(node); }

 private:
  struct Gradient {
    Tensor tensor;
    bool owned = false;
    /// True if nothing else reads the gradient, so that it may be overwritten. Observers and recompute may hold
    /// references to it, so the answer can differ between executions of a step; the bits of a sum must not depend on
    /// it.
    bool exclusive() const { return owned || tensor.sole_owner(); }
  };
  std::unordered_map<const Node*, std::vector<Gradient>> pending_;
  std::unordered_map<const Node*, int> readers_;  // counts of count_readers()
  std::unordered_set<const Node*> multiplied_;    // nodes whose pending gradient includes their activation derivative
};

/// During its lifetime, only this thread may write the gradients of some leaves. A backward of another thread that
/// reaches one of them throws instead of adding to the same numbers at the same time.
class GradientClaims : NonCopyable {
 public:
  ~GradientClaims() {
    for (const auto& leaf : leaves_) leaf->grad_writer.store(nullptr, std::memory_order_release);
  }
  /// A leaf that an outer backward of this thread has claimed stays claimed.
  void claim(const std::shared_ptr<Variable::State>& leaf) {
    static thread_local const char this_thread = 0;
    const void* writer = nullptr;
    leaves_.push_back(leaf);  // before the claim, because push_back may throw
    if (leaf->grad_writer.compare_exchange_strong(writer, &this_thread, std::memory_order_acquire)) return;
    leaves_.pop_back();
    check<AutogradError>(writer == &this_thread,
                         "backward: another thread's backward is writing the gradient of {}; let the threads take "
                         "turns, or give each its own model",
                         leaf->name.empty() ? fmt::format("a leaf of shape {}", leaf->value.shape()) : leaf->name);
  }
  void claim_all(std::span<const std::shared_ptr<Node>> nodes) {
    for (const auto& node : nodes)
      for (const Edge& edge : node->edges())
        if (edge.leaf != nullptr && !NeededGradients::is_excluded(edge.leaf.get())) claim(edge.leaf);
  }

 private:
  std::vector<std::shared_ptr<Variable::State>> leaves_;
};

/// Stores the gradients of a node's inputs: in the input itself if it is a leaf, otherwise as pending gradient of the
/// node that produced it.
class NodeSink final : public GradSink {
 public:
  /// `taken`: the output gradients that the op reads. `last`: true if the node is released after its backward.
  NodeSink(const Node& node, const NeededGradients& wanted, Pending& pending, const Pending::Taken& taken, bool last)
      : node_(node),
        wanted_(wanted),
        pending_(pending),
        taken_(taken),
        last_(last),
        temporaries_(node.edges().size()),
        gradients_seen_(node.edges().size()) {}

  bool needs(int i) const override { return wanted_.needs(edge_at(i)); }

  Tensor destination(int i) override { return shown_to_observers(i, make_destination(i)); }

  Sum add_to(int i) override {
    const Tensor* there = sum_at(i);
    if (there == nullptr) return {destination(i), false};
    added_.push_back(*there);
    return {shown_to_observers(i, *there), true};
  }

  Tensor destination_over(int i, int saved) override {
    const Tensor& kept = node_.context().saved(saved, node_.info().name);
    const OpContext::Input& input = node_.context().inputs[static_cast<std::size_t>(i)];
    const bool free = last_ && needs(i) && edge_at(i).leaf == nullptr && kept.defined() && kept.sole_owner();
    if (!free || !fits(kept, input) || !kept.contiguous()) return destination(i);
    Tensor over = kept;
    over.bump_version();
    temporaries_[static_cast<std::size_t>(i)] = over;
    return shown_to_observers(i, over);
  }

  /// The result depends on the recorded graph alone, so that a recomputed, replayed or observed backward computes the
  /// same bits.
  ActivationDerivative activation_derivative(int i) const override {
    const Edge& edge = edge_at(i);
    if (!wanted_.needs(edge) || !pending_.may_have_derivative(edge)) return {};
    const OpContext& maker = edge.node->context();
    return {maker.activation_derivative.activation,
            maker.saved(maker.activation_derivative.saved, edge.node->info().name)};
  }
  Tensor destination_with_derivative(int i) override {
    pending_.set_multiplied(edge_at(i).node.get());
    return shown_to_observers(i, make_destination(i));
  }
  bool derivative_applied() const override { return pending_.multiplied(&node_); }

  void set(int i, Tensor gradient) override { give(i, std::move(gradient), false); }

  void set_slice(int i, Tensor gradient) override {
    bool owned = true;
    for (std::size_t j = 0; j < taken_.gy.size(); ++j)
      owned = owned && (taken_.owned[j] || !taken_.gy[j].shares_storage_with(gradient));
    give(i, std::move(gradient), owned);
  }

  /// Returns the gradient of each input, for observers.
  const Tensors& given() const { return gradients_seen_; }
  /// Returns the gradients that the op's kernels wrote, for observers. Aliases of gy are left out, because they were
  /// observed when gy was computed.
  const Tensors& written() const { return written_; }

  /// Called after the op's backward: adds the gradients in temporary tensors to the leaves or to the pending gradients.
  void finish() {
    for (Tensor& sum : added_) sum.bump_version();
    added_.clear();
    for (std::size_t i = 0; i < temporaries_.size(); ++i) {
      if (temporaries_[i].defined()) hand_over(static_cast<int>(i), std::move(temporaries_[i]), true);
    }
  }

 private:
  static bool observed() { return !detail::tape_observers().empty(); }
  static bool gradients_are_separated() {
    return std::ranges::any_of(detail::tape_observers(), &TapeObserver::separates_gradients);
  }

  void give(int i, Tensor gradient, bool owned) {
    if (observed()) gradients_seen_[static_cast<std::size_t>(i)] = gradient;
    hand_over(i, std::move(gradient), owned);
  }

  Tensor shown_to_observers(int i, const Tensor& tensor) {
    if (observed()) {
      gradients_seen_[static_cast<std::size_t>(i)] = tensor;
      written_.push_back(tensor);
    }
    return tensor;
  }

  /// Returns the sum of the gradients of input i from other ops if this op's kernel may add to it, otherwise null. The
  /// kernel may not add if another input of this op is the same variable (the op computes the gradients of its inputs
  /// in any order), or if the op's backward reads the memory of the sum.
  const Tensor* sum_at(int i) const {
    const Edge& edge = edge_at(i);
    if (!wanted_.needs(edge)) return nullptr;
    const auto same = [&edge](const Edge& other) {
      return other.node == edge.node && other.output == edge.output && other.leaf == edge.leaf;
    };
    if (std::ranges::count_if(node_.edges(), same) != 1 || gradients_are_separated()) return nullptr;
    const Tensor* there = nullptr;
    if (edge.node != nullptr)
      there = pending_.unshared(edge);
    else if (edge.leaf != nullptr && edge.leaf->grad_defined)
      there = &edge.leaf->grad;
    const auto read = [there](const Tensor& g) { return g.shares_storage_with(*there); };
    if (there == nullptr || std::ranges::any_of(taken_.gy, read)) return nullptr;
    if (!there->contiguous() && !node_.info().slices) return nullptr;
    return fits(*there, node_.context().inputs[static_cast<std::size_t>(i)]) ? there : nullptr;
  }

  Tensor make_destination(int i) {
    const Edge& edge = edge_at(i);
    const OpContext::Input& input = node_.context().inputs[static_cast<std::size_t>(i)];
    if (edge.leaf != nullptr && wanted_.needs(edge) && !edge.leaf->grad_defined) {
      edge.leaf->grad_defined = true;
      if (!fits(edge.leaf->grad, input)) edge.leaf->grad = Tensor::empty(input.shape, input.grad_dtype, input.device);
      return edge.leaf->grad;
    }
    Tensor& temporary = temporaries_[static_cast<std::size_t>(i)];
    temporary = Tensor::empty(input.shape, input.grad_dtype, input.device);
    return temporary;
  }

  void hand_over(int i, Tensor gradient, bool owned) {
    const Edge& edge = edge_at(i);
    if (!wanted_.needs(edge)) return;
    if (edge.node != nullptr) return pending_.add(edge, std::move(gradient), owned);
    Variable::State& leaf = *edge.leaf;
    if (leaf.grad_defined) return accumulate(leaf.grad, gradient);
    const OpContext::Input& input = node_.context().inputs[static_cast<std::size_t>(i)];
    if (fits(leaf.grad, input))
      leaf.grad.copy_from(gradient);
    else
      leaf.grad = gradient.dtype() == input.grad_dtype ? gradient.clone() : gradient.to(input.grad_dtype);
    leaf.grad_defined = true;
  }

  const Edge& edge_at(int i) const {
    check<ArgumentError>(i >= 0 && i < static_cast<int>(node_.edges().size()),
                         "{}: backward asks for the gradient of input {}, but the call had {} inputs",
                         node_.info().name, i, node_.edges().size());
    return node_.edges()[static_cast<std::size_t>(i)];
  }
  static bool fits(const Tensor& grad, const OpContext::Input& input) {
    return grad.defined() && grad.shape() == input.shape && grad.dtype() == input.grad_dtype;
  }

  const Node& node_;
  const NeededGradients& wanted_;
  Pending& pending_;
  const Pending::Taken& taken_;
  bool last_;
  Tensors temporaries_;
  Tensors added_;  // gradients that the op's kernels added to
  Tensors gradients_seen_, written_;
};

/// Calls the op's backward and notifies the observers of this thread. If several ops read a value, an op's kernel may
/// add its part of the value's gradient to the parts of the other ops. For this op, observers then get the sum so far;
/// for the other ops, they get the op's own part.
void run_backward(Node& node, Tensors& gy, NodeSink& sink) try {
  if (detail::tape_observers().empty() || !node.observed()) return node.backward(gy, sink);
  const OpCall call{.info = node.info(),
                    .module_path = node.module_path(),
                    .tape_index = node.tape_index(),
                    .direction = Direction::kBackward};
  for (TapeObserver* observer : detail::tape_observers()) observer->before_backward(call, gy);
  ObservationScope observation;
  node.backward(gy, sink);
  const Observation seen = detail::observed(node.info(), observation,
                                            node.info().observed == Observed::kByScan ? sink.given() : sink.written());
  for (TapeObserver* observer : detail::tape_observers()) observer->after_backward(call, gy, sink.given(), seen);
} catch (const std::bad_alloc&) {
  detail::throw_no_memory(node.info(), node.module_path());
}

}  // namespace

void backward(const Variable& output, const Tensor& cotangent, const BackwardOptions& options) {
  if (!grad_enabled()) InferenceMode::refuse("backward", "compute loss and gradients outside, or inside a GradGuard");
  check<AutogradError>(output.requires_grad() || output.value().counts_writes(),
                       "backward: the output has no history, because it was computed inside an InferenceMode; compute "
                       "it outside");
  check<AutogradError>(output.requires_grad(),
                       "backward: the output has no history; no parameter led to it, or it was computed under a "
                       "NoGradGuard, or it comes from grad() without create_graph");
  check<ShapeError>(cotangent.shape() == output.shape(), "backward: wanted a cotangent of shape {}, got {}",
                    output.shape(), cotangent.shape());
  const Tensor seed = cotangent.to(output.dtype());
  GradientClaims claims;
  if (output.is_leaf()) {
    if (NeededGradients::is_excluded(output.state().get())) return;
    claims.claim(output.state());
    Variable::State& leaf = *output.state();
    if (leaf.grad_defined)
      accumulate(leaf.grad, seed);
    else
      leaf.grad = seed.clone();
    leaf.grad_defined = true;
    return;
  }
  Pending pending;
  pending.add({output.state()->node, output.state()->output, nullptr}, seed, false);
  std::vector<std::shared_ptr<Node>> nodes = reachable_nodes(output.state()->node);
  for (const auto& node : nodes) node->check_not_released();
  claims.claim_all(nodes);
  const BackwardNotes notes(nodes);
  const NeededGradients wanted(nodes);
  pending.count_readers(nodes);
  const NoGradGuard no_grad;
  for (std::shared_ptr<Node>& node : nodes) {
    Pending::Taken taken = pending.take(node.get());
    if (wanted.leads(node.get()) && std::ranges::any_of(taken.gy, &Tensor::defined)) {
      NodeSink sink(*node, wanted, pending, taken, !options.retain_graph);
      run_backward(*node, taken.gy, sink);
      sink.finish();
    }
    if (!options.retain_graph) node->release();
    node.reset();  // frees saved tensors during the pass
  }
}

void backward(const Variable& loss, double seed, const BackwardOptions& options) {
  check<ShapeError>(loss.value().numel() == 1,
                    "backward: wanted a loss of one element, got shape {}; sum or average it first", loss.shape());
  backward(loss, Tensor::full(loss.shape(), seed, loss.dtype(), loss.device()), options);
}

}  // namespace binade
