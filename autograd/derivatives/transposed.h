#pragma once

#include <type_traits>

#include "binade/autograd/apply.h"
#include "binade/autograd/collecting_sink.h"
#include "binade/autograd/derivative.h"
#include "binade/core/ops/dropout.h"

namespace binade::derivatives {

/// The gradient gx = A^T gy of an op that is linear in its first input, y = A x, as a recorded op: its forward is the
/// backward of `Op`, its backward is the forward of `Op`, and its derivative is `Op`.
template <class Op>
struct Transposed {
  struct Params {
    typename Op::Params op_params{};
    OpContext context{};    ///< of the recorded call of `Op`
    Tensors more_inputs{};  ///< inputs of `Op` after the first
  };
  static constexpr OpInfo info{.name = Op::info.name,
                               .inputs = "gy",
                               .policy_inputs = 0,
                               .observed = Op::info.observed,
                               .slices = Op::info.slices};

  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params& p) {
    CollectingSink sink(p.context, {true});
    const Tensor gy = info.slices ? in[0] : in[0].contiguous_copy();
    Op::backward(p.context, std::span(&gy, 1), sink, p.op_params);
    return {sink.gradients()[0]};
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    if (!gx.needs(0)) return;
    if (gy[0].numel() == 0) return gx.destination(0).fill(0);  // the forward of a mean over 0 elements is NaN
    OpContext call;
    call.store_dtype = ctx.inputs[0].dtype;
    call.rng = p.context.rng;
    Tensors in{gy[0]};
    in.insert(in.end(), p.more_inputs.begin(), p.more_inputs.end());
    gx.set(0, Op::forward(call, in, p.op_params).front().to(ctx.inputs[0].grad_dtype));
  }
  static Variables derivative(const RecordedCall& call) {
    const auto& p = call.params<Transposed>();
    if (call.gy().value().numel() == 0) return Variables(1);
    // Calling Dropout would draw other random numbers. Transposed<Dropout> is its own transpose, because dropout
    // multiplies each element by a number.
    if constexpr (std::is_same_v<Op, ops::Dropout>) return {apply_one<Transposed>(p, {call.gy()})};
    Variables inputs{call.gy()};
    inputs.insert(inputs.end(), p.more_inputs.begin(), p.more_inputs.end());
    return {apply<Op>(p.op_params, inputs).front()};
  }
};

/// Returns the derivative of the recorded call of `Op`, which is linear in its first input. `more_inputs`: the inputs
/// of `Op` after the first, which are constants.
template <class Op>
Variables transposed(const RecordedCall& call, Tensors more_inputs = {}) {
  Variables gradients(call.context().inputs.size());
  gradients[0] = apply_one<Transposed<Op>>({call.params<Op>(), call.context(), std::move(more_inputs)}, {call.gy()});
  return gradients;
}

}  // namespace binade::derivatives
