#pragma once

#include <optional>

#include "binade/core/activation.h"
#include "binade/core/ops/fp8.h"
#include "binade/core/ops/op.h"

namespace binade::ops {

/// y = activation(x w^T + bias). x (..., in), w (out, in), bias (out), optional; y (..., out).
///
/// x and w have one floating dtype; x may be a channel slice. The policy does not cast the bias (f32, or f64 with f64
/// inputs). Sums, bias and activation are f32 (f64 for f64) and y is rounded once. With a GELU in 16 bits, the
/// pre-activation z is rounded too, whether or not a gradient is needed, and y is computed from the rounded z
/// (docs/decisions/0037; a finite sum below the range becomes the lowest 16-bit number). |error| <= in 2^-24 sum|x w|
/// before the roundings. NaN propagates.
///
/// On a GPU with 16-bit products, a bias that is a leaf is rounded to their dtype first, as PyTorch's autocast does
/// (|error| <= 1/2 ulp of the bias; beyond 65504 it is an infinity of f16), and the library computes the GELU if its
/// product can (docs/decisions/0028).
///
/// gz = gy activation'(z), gx = gz w, gw = gz^T x, gbias = column sums of gz. Saves x, w and, for a GELU, z (for ReLU
/// y). If x is the GELU output of another linear layer on the CPU, only that layer's z is kept, and backward recomputes
/// x (docs/decisions/0036).
///
/// If x is the result of a linear layer with an activation and nothing else reads it, the product that computes gx
/// multiplies gx by that layer's activation derivative before storing it, which gives that layer's gz
/// (docs/decisions/0034). In 16 bits the f32 sum is then rounded once, after the multiplication; in f32 and f64 on the
/// CPU the bits are the same as without it. On a GPU this happens only for the tanh GELU in 16 bits, if the library's
/// product has that derivative.
///
/// With `fp8` and products in bf16, x, w and gz are rounded to 8 bits before they are multiplied (core/ops/fp8.h), and
/// the rounded x and w are saved, as codes if the device multiplies codes; gbias is computed from the unrounded gz.
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
