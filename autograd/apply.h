#pragma once

#include <concepts>
#include <initializer_list>
#include <new>
#include <span>
#include <vector>

#include "binade/autograd/node.h"
#include "binade/autograd/observer.h"
#include "binade/autograd/variable.h"
#include "binade/core/ops/op.h"

namespace binade {

namespace detail {

/// Returns the largest magnitudes that an op stored (core/observation.h). If its kernels did not observe any, reads
/// `results`, the tensors that it returned.
Observation observed(const OpInfo& info, ObservationScope& observation, std::span<const Tensor> results);
/// Throws OutOfMemoryError with the names of op and module. Called if an op fails to allocate host memory other than a
/// tensor.
[[noreturn]] void throw_no_memory(const OpInfo& info, std::string_view module_path);
/// Returns the edge to the producer of `x`, to which backward passes the gradient of `x`.
Edge edge_to(const Variable& x);
/// Like edge_to(), for a leaf that Variable::register_hook() was called for.
Edge edge_to_hooked_leaf(const Variable& x);
/// Describes input `x`, which the op reads as `tensor`. The gradient of a parameter is f32
/// (docs/decisions/0002-parameter-gradients-are-fp32.md).
OpContext::Input input_of(const Variable& x, const Tensor& tensor);

/// The part of apply() that does not depend on the type of the op.
class Application {
 public:
  /// Casts the inputs as the current precision policy requires (casts are recorded ops) and fills the op's context. No
  /// other code calls compute_dtype(). `inputs` must outlive the object.
  Application(const OpInfo& info, std::span<const Variable> inputs);
  std::span<const Tensor> tensors() const { return tensors_; }
  OpContext& context() { return context_; }
  bool records() const { return context_.grad_enabled; }
  std::vector<Edge> take_edges() { return std::move(edges_); }
  /// Returns the op's parameters; observers may have changed its scalar, and the eps or smooth of its denominator.
  template <class Params>
  Params adjusted(Params params) const {
    if constexpr (requires { params.eps; }) params.eps = eps(params.eps);
    if constexpr (requires { params.smooth; }) params.smooth = eps(params.smooth);
    if constexpr (requires { requires std::floating_point<decltype(params.scalar)>; })
      params.scalar = static_cast<decltype(params.scalar)>(scalar(params.scalar));
    return params;
  }
  /// Calls the op's forward with `params` and notifies the observers of this thread. `function_of`: as in OpCall.
  template <class Params, class Forward>
  Tensors run(const Params& params, OpFunction (*function_of)(const void*), Forward&& forward) try {
    if (tape_observers().empty()) return forward();
    params_ = &params;
    function_of_ = function_of;
    ObservationScope observation;
    before();
    Tensors outputs = forward();
    after(outputs, observation);
    return outputs;
  } catch (const std::bad_alloc&) {
    throw_no_memory(info_, call().module_path);
  }
  /// Returns the outputs as wrap() does, marked if they lose the gradient that they would have (State::lost_gradient).
  std::vector<Variable> results(Tensors outputs, const std::shared_ptr<Node>& node,
                                std::uint32_t non_differentiable) const;
  /// Returns the outputs as variables, linked to `node` if the op was recorded. `non_differentiable`: bit i is set if
  /// output i has no gradient.
  static std::vector<Variable> wrap(Tensors outputs, const std::shared_ptr<Node>& node,
                                    std::uint32_t non_differentiable);

 private:
  double eps(double given) const;
  double scalar(double given) const;
  void before();
  void after(Tensors& outputs, ObservationScope& observation);
  OpCall call() const;

  /// Throws AutogradError if a recorded op reads a value whose gradient is lost.
  void check_gradient_of(const Variable& x) const;

  const OpInfo& info_;
  std::span<const Variable> inputs_;
  bool loses_gradient_ = false;
  const void* params_ = nullptr;
  OpFunction (*function_of_)(const void*) = nullptr;
  std::int64_t tape_index_;
  std::vector<Edge> edges_;
  Tensors tensors_;
  OpContext context_;
};

template <OpUnit Op>
class OpNode final : public Node {
 public:
  OpNode(OpContext context, std::vector<Edge> edges, int outputs, typename Op::Params params)
      : Node(Op::info, std::move(context), std::move(edges), outputs), params_(std::move(params)) {}
  void backward(std::span<const Tensor> gy, GradSink& gx) override { Op::backward(context_, gy, gx, params_); }
  const void* params() const override { return &params_; }
  Derivative derivative() const override {
    if constexpr (requires(const RecordedCall& call) { Op::derivative(call); }) return &Op::derivative;
    return nullptr;
  }

 private:
  typename Op::Params params_;
};

/// Implements OpCall::function_of for `Op`.
template <OpUnit Op>
OpFunction function_of(const void* params);

}  // namespace detail

/// Runs an op on variables: casts the inputs to the dtypes of the precision policy, calls the op's forward, and records
/// the call on the tape. Every function in autograd/functions.h calls it, and functions for users' own ops do so too.
/// Pass an undefined Variable to leave out an optional input.
template <OpUnit Op>
std::vector<Variable> apply(const typename Op::Params& given, std::span<const Variable> inputs) {
  detail::Application application(Op::info, inputs);
  typename Op::Params params = application.adjusted(given);
  Tensors outputs = application.run(params, &detail::function_of<Op>,
                                    [&] { return Op::forward(application.context(), application.tensors(), params); });
  const std::uint32_t non_differentiable = application.context().non_differentiable_outputs;
  std::shared_ptr<Node> node;
  if (application.records())
    node = std::make_shared<detail::OpNode<Op>>(std::move(application.context()), application.take_edges(),
                                                static_cast<int>(outputs.size()), std::move(params));
  return application.results(std::move(outputs), node, non_differentiable);
}
template <OpUnit Op>
std::vector<Variable> apply(const typename Op::Params& params, std::initializer_list<Variable> inputs) {
  return apply<Op>(params, std::span(inputs.begin(), inputs.size()));
}
template <OpUnit Op>
OpFunction detail::function_of(const void* params) {
  return [copy = *static_cast<const typename Op::Params*>(params)](std::span<const Variable> inputs) {
    return apply<Op>(copy, inputs);
  };
}
/// Like apply(), but returns the first output only.
template <OpUnit Op>
Variable apply_one(const typename Op::Params& params, std::initializer_list<Variable> inputs) {
  return std::move(apply<Op>(params, inputs).front());
}

}  // namespace binade
