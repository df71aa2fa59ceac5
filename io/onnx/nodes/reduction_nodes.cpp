#include "binade/io/onnx/nodes/node.h"

namespace binade::onnx {
namespace {

/// Calls f(x, axes, keepdim). The axes are an input of the node or, in older versions of an operator, an attribute.
Function over_axes(std::function<Variable(const Variable&, const Axes&, bool)> f) {
  return one([f](const Node& n) {
    const std::vector<std::int64_t> axes = n.has(1) ? n.list(1) : n.integers("axes");
    if (axes.empty() && n.integer("noop_with_empty_axes", 0) != 0) return n[0];
    return like(n[0], f(n[0], as_axes(axes), n.integer("keepdims", 1) != 0));
  });
}

/// The largest or smallest element. It is an error if there are no elements, as in PyTorch.
Function largest_or_smallest(Variable (*f)(const Variable&, Axes, bool)) {
  return over_axes([f](const Variable& x, const Axes& axes, bool keep) {
    unsupported_if(x.shape().numel() == 0, "the extremum of no element is an error");
    return f(x, axes, keep);
  });
}

Function extremum(Variable (*f)(const Variable&, std::optional<int>, bool)) {
  return one([f](const Node& n) {
    const int axis = from_start(n.integer("axis", 0), rank_of(n[0]));
    const bool keep = n.integer("keepdims", 1) != 0;
    if (n.integer("select_last_index", 0) == 0) return f(n[0], axis, keep);
    return n[0].dim(axis) - 1 - f(flip(n[0], {axis}), axis, keep);
  });
}

/// A cumulative function with ONNX's options; an exclusive one starts with `neutral` and omits the last element.
Function cumulative(Variable (*f)(const Variable&, int), double neutral) {
  return one([f, neutral](const Node& n) {
    const int axis = from_start(n.whole(1), rank_of(n[0]));
    const bool reverse = n.integer("reverse", 0) != 0;
    Variable x = reverse ? flip(n[0], {axis}) : n[0];
    if (n.integer("exclusive", 0) != 0) {
      const Variable first = narrow(x, axis, 0, 1);
      x = concat({full_like(first.value(), neutral), slice(x, axis, 0, -1)}, axis);
    }
    const Variable y = like(x, f(x, axis));
    return reverse ? flip(y, {axis}) : y;
  });
}

Variable hardmax(const Node& n) {
  const int axis = from_start(n.integer("axis", -1), rank_of(n[0]));
  return like(n[0], movedim(one_hot(argmax(n[0], axis), n[0].dim(axis)), {-1}, {axis}));
}

}  // namespace

Table reduction_nodes() {
  using X = const Variable&;
  using A = const Axes&;
  return {
      {"ReduceSum", over_axes([](X x, A axes, bool keep) { return sum(x, axes, keep); })},
      {"ReduceMean", over_axes([](X x, A axes, bool keep) { return mean(x, axes, keep); })},
      {"ReduceProd", over_axes([](X x, A axes, bool keep) { return prod(x, axes, keep); })},
      {"ReduceMax", largest_or_smallest(max)},
      {"ReduceMin", largest_or_smallest(min)},
      {"ReduceL1", over_axes([](X x, A axes, bool keep) { return norm(x, 1, axes, keep); })},
      {"ReduceL2", over_axes([](X x, A axes, bool keep) { return norm(x, 2, axes, keep); })},
      {"ReduceLogSum", over_axes([](X x, A axes, bool keep) { return log(sum(x, axes, keep)); })},
      {"ReduceLogSumExp", over_axes([](X x, A axes, bool keep) { return logsumexp(x, axes, keep); })},
      {"ReduceSumSquare", over_axes([](X x, A axes, bool keep) { return sum(square(x), axes, keep); })},
      {"ArgMax", extremum(argmax)},
      {"ArgMin", extremum(argmin)},
      {"CumSum", cumulative(cumsum, 0)},
      {"CumProd", cumulative(cumprod, 1)},
      {"Softmax",
       one([](const Node& n) { return like(n[0], softmax(n[0], static_cast<int>(n.integer("axis", -1)))); })},
      {"LogSoftmax",
       one([](const Node& n) { return like(n[0], log_softmax(n[0], static_cast<int>(n.integer("axis", -1)))); })},
      {"Hardmax", one(hardmax)},
  };
}

}  // namespace binade::onnx
