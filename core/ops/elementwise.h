#pragma once

#include <cstdint>
#include <span>

#include "binade/core/kernels/elementwise.h"
#include "binade/core/ops/lists.h"
#include "binade/core/ops/op.h"
#include "binade/core/step_context.h"

namespace binade::ops {

/// What the derivative of a unary op is computed from, and so what the tape keeps.
enum class Saves { kNothing, kInput, kOutput };
/// The same for one of the two derivatives of a binary op.
enum class Reads : unsigned { kNone = 0, kA = 1, kB = 2, kBoth = 3 };

struct NoParams {};

namespace detail {

/// y = the op's value at x; gx = its derivative, from what Op::saves says (gy where it saves nothing) and gy. `op`: its
/// position in UnaryOps. Inputs may be channel slices; results are contiguous.
void unary(int op, const Tensor& x, Tensor& y, const OpParams& p);
void unary_backward(int op, const Tensor& saved, const Tensor& gy, Tensor& gx, const OpParams& p);
/// y = the op's value at a and b, which broadcast to it; g, of that shape, the gradient of input `which` before it is
/// summed down to the input's own.
void binary(int op, const Tensor& a, const Tensor& b, Tensor& y, const OpParams& p = {});
void binary_backward(int op, int which, const Tensor& a, const Tensor& b, const Tensor& gy, Tensor& g,
                     const OpParams& p);

/// Throws DTypeError unless all of `in` are floating.
void check_floating(const OpInfo& info, std::span<const Tensor> in);

/// Gives input i its gradient from `g`, of the output's shape: `g` itself where shape and dtype fit, else summed over
/// the dimensions in which the input was broadcast.
void sink_broadcast(const OpContext& ctx, GradSink& gx, int i, const Tensor& g);

}  // namespace detail

/// An elementwise op of one input. Derive from it (`struct Relu : Unary<Relu>`) and state
///
///   info, saves                             contract; what backward reads
///   value(x, p)                             y for one element, C = float or double
///   gradient(saved, gy, p)                  gx for one element, from the x or y that was saved
///   Params                                  optional: options
///   check_params(p)                         optional: throws ArgumentError
///   passes_gradient = true                  optional: gx is gy, nothing is computed
///
/// All dtypes, channel slices and devices follow.
template <class Op>
struct Unary {
  using Params = NoParams;
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const auto& p) {
    detail::check_floating(Op::info, in);
    if constexpr (requires { Op::check_params(p); }) Op::check_params(p);
    Tensor y = Tensor::empty(in[0].shape(), ctx.store_dtype, in[0].device());
    detail::unary(position_in<Op>(UnaryOps{}), in[0], y, OpParams(p));
    if (Op::saves == Saves::kInput) ctx.save(in[0]);
    if (Op::saves == Saves::kOutput) ctx.save(y);
    return {y};
  }

  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const auto& p) {
    if (!gx.needs(0)) return;
    if constexpr (requires { Op::passes_gradient; }) return detail::sink_broadcast(ctx, gx, 0, gy[0]);
    Tensor destination = gx.destination(0);
    const Tensor& saved = Op::saves == Saves::kNothing ? gy[0] : ctx.saved(0, Op::info.name);
    detail::unary_backward(position_in<Op>(UnaryOps{}), saved, gy[0], destination, OpParams(p));
  }
};

/// An elementwise op of two inputs under NumPy's broadcasting. Derive from it and state
///
///   info
///   value(a, b, p)
///   gradient_a(a, b, gy, p), gradient_b(a, b, gy, p)
///   a_reads, b_reads                        which inputs each gradient reads (the tape keeps no other)
///   Params                                  optional: options
///   passes_gradient = true                  optional: both gradients are gy
template <class Op>
struct Binary {
  using Params = NoParams;
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const auto& p) {
    detail::check_floating(Op::info, in);
    Tensor y = Tensor::empty(broadcast(in[0].shape(), in[1].shape(), Op::info.name), ctx.store_dtype, in[0].device());
    detail::binary(position_in<Op>(BinaryOps{}), in[0], in[1], y, OpParams(p));
    const unsigned reads = reads_of(ctx);
    if (reads & 1u) ctx.save(in[0]);
    if (reads & 2u) ctx.save(in[1]);
    return {y};
  }

  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const auto& p) {
    const unsigned reads = reads_of(ctx);
    const Tensor& a = reads & 1u ? ctx.saved(0, Op::info.name) : gy[0];
    const Tensor& b = reads & 2u ? ctx.saved(reads & 1u ? 1 : 0, Op::info.name) : gy[0];
    for (int i = 0; i < 2; ++i) {
      if (!gx.needs(i)) continue;
      if constexpr (requires { Op::passes_gradient; }) {
        detail::sink_broadcast(ctx, gx, i, gy[0]);
        continue;
      }
      const OpContext::Input& input = ctx.inputs[static_cast<std::size_t>(i)];
      if (input.shape == gy[0].shape()) {
        Tensor destination = gx.destination(i);
        detail::binary_backward(position_in<Op>(BinaryOps{}), i, a, b, gy[0], destination, OpParams(p));
      } else {
        Tensor full = Tensor::empty(gy[0].shape(), accumulate_dtype(input.dtype), gy[0].device());
        detail::binary_backward(position_in<Op>(BinaryOps{}), i, a, b, gy[0], full, OpParams(p));
        detail::sink_broadcast(ctx, gx, i, full);
      }
    }
  }

 private:
  static unsigned reads_of(const OpContext& ctx) {
    return (ctx.inputs[0].needs_grad ? static_cast<unsigned>(Op::a_reads) : 0u) |
           (ctx.inputs[1].needs_grad ? static_cast<unsigned>(Op::b_reads) : 0u);
  }
};

}  // namespace binade::ops
