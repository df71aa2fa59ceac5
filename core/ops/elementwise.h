#pragma once

#include <cstdint>
#include <span>

#include "binade/core/kernels/elementwise.h"
#include "binade/core/ops/exact.h"
#include "binade/core/ops/lists.h"
#include "binade/core/ops/op.h"
#include "binade/core/step_context.h"

namespace binade::ops {

/// The tensor that the derivative of a unary op is computed from, which forward saves for backward.
enum class Saves { kNothing, kInput, kOutput };
/// The inputs that a derivative of a binary op is computed from.
enum class Reads : unsigned { kNone = 0, kA = 1, kB = 2, kBoth = 3 };

/// The Params of an op without options.
struct NoParams {};

/// Numerics of an op whose result is exact except for one rounding to the stored dtype.
inline constexpr Numerics kRoundedOnce{.ulp_f32 = 0.5, .ulp_half = 0.5};

/// Error bound, in ulp, of a result that is computed in double and rounded once.
inline constexpr double kUlpFromDouble = 0.51;

namespace detail {

/// Returns `info` with the fields that all unary ops share.
constexpr OpInfo unary_info(OpInfo info) {
  info.inputs = "x";
  info.observed = Observed::kByKernels;
  return info;
}
/// Returns `info` with the fields that all rare unary ops share.
constexpr OpInfo rare_info(OpInfo info) {
  info.numerics.ulp_f32 = info.numerics.ulp_half = kUlpFromDouble;
  return unary_info(info);
}
/// Returns `info` with the fields that all binary ops share.
constexpr OpInfo binary_info(OpInfo info) {
  info.inputs = "a, b";
  info.precision = PrecisionClass::kWidest;
  info.numerics = kRoundedOnce;
  info.observed = Observed::kByKernels;
  return info;
}

/// Run the kernel of a unary op: y = value(x), and gx = gradient(saved, gy), where `saved` is gy if the op saves
/// nothing. Inputs may be channel slices; results are contiguous.
void unary(Listed op, const Tensor& x, Tensor& y, const OpParams& p);
void unary_backward(Listed op, const Tensor& saved, const Tensor& gy, Tensor& gx, const OpParams& p);
/// Run the kernel of a binary op. a and b broadcast to y. g, of y's shape, is the gradient of input `which` before it
/// is summed to that input's shape.
void binary(Listed op, const Tensor& a, const Tensor& b, Tensor& y, const OpParams& p = {});
void binary_backward(Listed op, int which, const Tensor& a, const Tensor& b, const Tensor& gy, Tensor& g,
                     const OpParams& p);
/// Applies formula number `op` of ExactOps to one or two inputs, which broadcast. `result`: dtype of the result.
Tensor exact(const OpInfo& info, int op, std::span<const Tensor> in, DType result);
/// Throws ArgumentError if an element of `divisor`, whole numbers, is 0. On a GPU this waits for the device.
void check_divisor(const OpInfo& info, const Tensor& divisor);
/// Throws DTypeError for ops that bool does not have: difference, negation, shifts.
[[noreturn]] void refuse_bool(const OpInfo& info);

/// Applies the formula Exact to inputs of whole numbers. The result has the wider of their dtypes.
template <class Exact>
Tensor whole(const OpInfo& info, std::span<const Tensor> in) {
  const DType result = promoted(in.front().dtype(), in.back().dtype());
  if constexpr (requires { Exact::refuses_bool; })
    if (result == DType::boolean) refuse_bool(info);
  if constexpr (requires { Exact::divides; }) check_divisor(info, in.back());
  if constexpr (requires { typename Exact::OfBool; })
    if (result == DType::boolean) return exact(info, position_in<typename Exact::OfBool>(ExactOps{}), in, result);
  return exact(info, position_in<Exact>(ExactOps{}), in, result);
}

/// Throws DTypeError unless all of `in` are floating.
void check_floating(const OpInfo& info, std::span<const Tensor> in);

/// Stores the gradient of input i, given `g`, the gradient before it is summed over the dimensions in which the input
/// was broadcast. If shape and dtype of the input fit, `g` itself is passed on.
void sink_broadcast(const OpContext& ctx, GradSink& gx, int i, const Tensor& g);

}  // namespace detail

/// An elementwise op of one input. Derive from it (`struct Relu : Unary<Relu>`) and define
///
///   info, saves                   description of the op; the tensor that backward reads (Saves)
///   value(x, p)                   y of one element, in float or double
///   gradient(saved, gy, p)        gx of one element; `saved` is x or y as `saves` states
///   Params                        optional: options
///   check_params(p)               optional: throws ArgumentError
///   passes_gradient = true        optional: gx is gy, and gradient() is not called
///   Exact                         optional: the formula for whole numbers (exact.h); without it they give f32
///
/// All dtypes, channel slices and devices are supported without further code.
template <class Op>
struct Unary {
  using Params = NoParams;
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const auto& p) {
    if constexpr (requires { Op::check_params(p); }) Op::check_params(p);
    if (!is_floating(in[0].dtype())) {
      if constexpr (requires { typename Op::Exact; }) return {detail::whole<typename Op::Exact>(Op::info, in)};
      ctx.store_dtype = DType::f32;
    }
    Tensor y = Tensor::empty(in[0].shape(), ctx.store_dtype, in[0].device());
    detail::unary(listed_unary<Op>(), in[0], y, OpParams(p));
    if (Op::saves == Saves::kInput) ctx.save(in[0]);
    if (Op::saves == Saves::kOutput) ctx.save(y);
    return {y};
  }

  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const auto& p) {
    if (!gx.needs(0)) return;
    if constexpr (requires { Op::passes_gradient; }) return detail::sink_broadcast(ctx, gx, 0, gy[0]);
    Tensor destination = gx.destination(0);
    const Tensor& saved = Op::saves == Saves::kNothing ? gy[0] : ctx.saved(0, Op::info.name);
    detail::unary_backward(listed_unary<Op>(), saved, gy[0], destination, OpParams(p));
  }
};

/// An elementwise op of two inputs with NumPy's broadcasting. Derive from it and define
///
///   info, value(a, b, p)
///   gradient_a(a, b, gy, p), gradient_b(a, b, gy, p)
///   a_reads, b_reads              the inputs that gradient_a and gradient_b read (Reads); only these are saved
///   Params                        optional: options
///   passes_gradient = true        optional: both gradients are gy
///   Exact                         optional: the formula for whole-number inputs (exact.h); without it they give f32
///
/// If only one input is floating, the other is read in the dtype in which the op computes, and has no gradient.
template <class Op>
struct Binary {
  using Params = NoParams;
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const auto& p) {
    if (!is_floating(in[0].dtype()) && !is_floating(in[1].dtype())) {
      if constexpr (requires { typename Op::Exact; }) return {detail::whole<typename Op::Exact>(Op::info, in)};
      ctx.store_dtype = DType::f32;
    }
    Tensor y = Tensor::empty(broadcast(in[0].shape(), in[1].shape(), Op::info.name), ctx.store_dtype, in[0].device());
    detail::binary(listed_binary<Op>(), in[0], in[1], y, OpParams(p));
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
        detail::binary_backward(listed_binary<Op>(), i, a, b, gy[0], destination, OpParams(p));
      } else {
        Tensor full = Tensor::empty(gy[0].shape(), accumulate_dtype(input.dtype), gy[0].device());
        detail::binary_backward(listed_binary<Op>(), i, a, b, gy[0], full, OpParams(p));
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
