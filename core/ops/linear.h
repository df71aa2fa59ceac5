#pragma once

#include <optional>

#include "binade/core/activation.h"
#include "binade/core/ops/fp8.h"
#include "binade/core/ops/op.h"

namespace binade::ops {

/// y = activation(x w^T + bias). x (..., in), w (out, in), bias (out) or left out; y (..., out).
///
/// x and w of one floating dtype, x may be a channel slice; bias is not cast by the policy (f32, or f64 with f64
/// inputs). Sums, bias and activation are f32 (f64 for f64) and y is rounded once; with a GELU in halves so is the
/// pre-activation z, whether a gradient is wanted or not, and y is one of that (docs/decisions/0037; a finite sum below
/// the range is the lowest half). |error| <= in 2^-24 sum|x w| before the roundings. NaN passes.
///
/// On a GPU, with products in halves, a bias that is a leaf is rounded to their dtype first, as PyTorch's autocast does
/// (|error| <= 1/2 ulp of the bias; past 65504 it is an infinity of f16), and a GELU is the library's where it has one
/// in its product (docs/decisions/0028).
///
/// gz = gy activation'(z), gx = gz w, gw = gz^T x, gbias = column sums of gz. Saves x, w and, for a GELU, z (for ReLU
/// y). Where x is a GELU that another linear layer has made on the CPU, its z is all that is kept of it, and backward
/// makes x again (docs/decisions/0036).
///
/// Where x is the result of a linear layer with an activation, which nothing else reads, gx is multiplied by that
/// layer's derivative as the product stores it, and is that layer's gz (docs/decisions/0034): in halves the f32 sum is
/// rounded once, behind the derivative, not before it too; in f32 and f64 on the CPU the bits are the same. On a GPU so
/// of the tanh GELU in halves where the library's product has its derivative, which is the library's then.
///
/// With `fp8` and products in bf16, x, w and gz are rounded to 8 bits before they are multiplied (core/ops/fp8.h), and
/// what is saved of x and w is that, as codes where the device multiplies codes; gbias is of gz as it was.
struct Linear {
  struct Params {
    Activation activation = Activation::kNone;
    std::optional<Fp8Scaling> fp8{};
  };
  static ValueRange range(const RangeInputs& in, const Params& p) {
    return p.activation == Activation::kRelu ? ranges::not_negative(in) : ValueRange{};
  }
  static constexpr OpInfo info{.name = "linear",
                               .inputs = "x, w, bias?",
                               .precision = PrecisionClass::kLow,
                               .policy_inputs = 0b011,
                               .low_on_gpu = 0b100,
                               .family = OpFamily::kProduct,
                               .observed = Observed::kByKernels,
                               .range = typed_range<range>};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
