#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

// Recurrent layers: one layer and one direction over whole sequences, as one op.
//
//   x (B, T, in), w_ih (G H, in), w_hh (G H, H), bias_ih and bias_hh (G H), h0 and c0 (B, H), lengths (B);
//   y (B, T, H) with the h of every position, h_n and c_n (B, H): the state after the last position.
//
// G is the number of gates; their rows are in PyTorch's order. Biases, initial states (default: 0) and lengths are
// optional. At each position, a = x w_ih^T + bias_ih, b = h w_hh^T + bias_hh with the previous h, and the new h follows
// by the formula of the op; with `reverse` the last position is the first to be computed. With lengths (i64 or i32, 0
// to T), sequence i consists of its first lengths[i] positions. At the other positions y is 0. They change neither h_n
// nor a gradient, unless x is not finite there (a NaN reaches the gradient of w_ih).
//
// x, w_ih, w_hh and h0 have one floating dtype; y and h_n are stored in it, and so are the activations for backward.
// The policy does not cast biases and c0. Products are those of ops::Linear: 16-bit operands, sums in f32 (f64 for
// f64). The sums are not rounded to 16 bits: gates, c and c_n are computed in f32, and the h that enters the next
// product is rounded once. sigmoid and tanh have an error of 3 ulp. NaN propagates. There is no singularity.
//
// One product computes x w_ih^T of all positions; each position takes a product with w_hh and one pass over the gates.
// Backward also takes a product and a pass per position, and one product each for the gradients of x, w_ih and w_hh.
// Saves x, w_ih, w_hh, the previous h of every position, the activations and, in an LSTM, c. Throws DataError for a
// length outside 0 … T.

/// h = tanh(a + b), or relu(a + b). Outputs y, h_n. ga = gh h' is the gradient of a and of b.
struct Rnn {
  struct Params {
    bool relu = false;
    bool reverse = false;
  };
  static ValueRange range(const RangeInputs&, const Params& p) {
    return p.relu ? ValueRange{.low = 0} : ValueRange{.low = -1, .high = 1};
  }
  static constexpr OpInfo info{.name = "rnn",
                               .inputs = "x, w_ih, w_hh, bias_ih?, bias_hh?, h0?, lengths?",
                               .precision = PrecisionClass::kLow,
                               .numerics = {.ulp_f32 = 4},
                               .policy_inputs = 0b0100111,
                               .observed = Observed::kByKernels,
                               .range = typed_range<range>,
                               .saturates = true};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of the gates of a + b; c = f c + i g; h = o tanh(c). Outputs y, h_n
/// and, in f32 (f64 for f64), c_n. c grows by at most 1 per position.
struct Lstm {
  struct Params {
    bool reverse = false;
  };
  static ValueRange range(const RangeInputs&, const Params&) { return {.low = -1, .high = 1}; }
  static constexpr OpInfo info{.name = "lstm",
                               .inputs = "x, w_ih, w_hh, bias_ih?, bias_hh?, h0?, c0?, lengths?",
                               .precision = PrecisionClass::kLow,
                               .numerics = {.ulp_f32 = 4},
                               .policy_inputs = 0b00100111,
                               .observed = Observed::kByKernels,
                               .range = typed_range<range>,
                               .saturates = true};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// r, z = sigmoid of the gates of a + b; n = tanh(a_n + r b_n); h = n + z (h - n). Outputs y, h_n. The h in the last
/// formula is kept in f32 (f64 for f64), so that small changes are not lost in 16 bits.
struct Gru {
  struct Params {
    bool reverse = false;
  };
  static ValueRange range(const RangeInputs& in, const Params&) {
    const bool starts_at_zero = in.inputs.size() < 6 || in.inputs[5].numel == 0;
    return starts_at_zero ? ValueRange{.low = -1, .high = 1} : hull({.low = -1, .high = 1}, in[5]);
  }
  static constexpr OpInfo info{.name = "gru",
                               .inputs = "x, w_ih, w_hh, bias_ih?, bias_hh?, h0?, lengths?",
                               .precision = PrecisionClass::kLow,
                               .numerics = {.ulp_f32 = 4},
                               .policy_inputs = 0b0100111,
                               .observed = Observed::kByKernels,
                               .range = typed_range<range>,
                               .saturates = true};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
