#include "binade/autograd/derivative.h"

#include "binade/autograd/apply.h"
#include "binade/autograd/collecting_sink.h"
#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/core/ops/cast.h"

namespace binade {
namespace {

std::string name_of_call(const Node& node) {
  return node.module_path().empty() ? node.info().name : fmt::format("{} [{}]", node.info().name, node.module_path());
}

/// Returns a tensor that forward saved, or recomputes it if forward saved the pre-activation in its place.
Tensor restored(const OpContext& context, int position, const char* op) {
  const Tensor& kept = context.saved(position, op);
  const Activation activation = context.recomputed_by(position);
  if (activation == Activation::kNone) return kept;
  Tensor x = Tensor::empty(kept.shape(), kept.dtype(), kept.device());
  kernels(kept.device()).activate({activation, kept.dtype(), kept.raw(), x.mutable_raw(), kept.numel()});
  return x;
}

/// Returns the leaf that forward read as `value`. An op may have read it in another dtype.
Variable leaf_read_as(const Tensor& value, const Edge& edge, const Node& node) {
  Variable::State& leaf = *edge.leaf;
  if (leaf.value.shares_storage_with(value) || leaf.is_current_copy(value)) return Variable(edge.leaf);
  check<AutogradError>(size_of(value.dtype()) >= size_of(leaf.value.dtype()),
                       "{}: the parameter {} was changed after forward; compute derivatives before the update",
                       name_of_call(node), leaf.name.empty() ? "that it read" : leaf.name);
  OpContext context;
  context.grad_enabled = true;
  context.inputs = {detail::input_of(Variable(edge.leaf), leaf.value)};
  return RecordedCall::linked(value,
                              std::make_shared<detail::OpNode<ops::Cast>>(std::move(context), std::vector<Edge>{edge},
                                                                          1, ops::Cast::Params{value.dtype()}));
}

}  // namespace

Variable RecordedCall::linked(Tensor value, std::shared_ptr<Node> maker, int output) {
  Variable x(std::move(value), true);
  x.state()->node = std::move(maker);
  x.state()->output = output;
  return x;
}

Variable RecordedCall::input(int i, int position) const {
  Tensor value = restored(context(), position, node_->info().name);
  const Edge& edge = node_->edges().at(static_cast<std::size_t>(i));
  if (edge.leaf) return leaf_read_as(value, edge, *node_);
  return edge.node ? linked(std::move(value), edge.node, edge.output) : Variable(std::move(value));
}

Variable RecordedCall::output(int i, int position) const { return linked(saved(position), node_, i); }

Tensors RecordedCall::backward_of(const Tensors& gy) const {
  CollectingSink sink(context(), needed_);
  node_->backward(gy, sink);
  return sink.gradients();
}

void RecordedCall::refuse(const Node& node, std::string_view advice) {
  throw AutogradError(
      fmt::format("{}: its gradient cannot be differentiated again (create_graph): {}", name_of_call(node), advice));
}

}  // namespace binade
