#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Connectionist temporal classification (Graves et al., 2006): the negative log-likelihood of label sequences that
/// have no alignment with the steps of the input.
///   log_probabilities (T, N, C) floating, targets (N, S), input_lengths (N), target_lengths (N)   ->   losses (N)
///   loss_n = -log(the sum over paths of prod_t p(t, n, path_t)). A path names one class for each of the first
///            input_lengths[n] steps. The sum is over the paths that become targets[n, 0 … target_lengths[n]) when
///            repetitions are removed first and blanks after that
///   gx[t, n, c] = -gy_n P(path_t = c, given the targets); 0 for steps t >= input_lengths[n]
/// The losses and gradients are computed in double by the forward-backward algorithm in log space, and rounded once (a
/// loss near 0 has the absolute error of its sums, about 1e-16 for each step). On a CPU, one thread computes a sample.
/// If no path exists (a target that, with a blank between equal neighbors, is longer than its input, or
/// log-probabilities of -inf), the loss is infinite and the gradient NaN, or both 0 with zero_infinity. Saves the
/// inputs; backward computes the forward part again and uses T (2 S + 1) doubles of memory for each sample that is
/// computed at the same time (on a GPU, the whole batch).
///
/// gx is the derivative with respect to the log-probabilities. PyTorch's ctc_loss returns the derivative with respect
/// to the logits; after the backward of log_softmax, both are the same.
///
/// Throws ArgumentError for a blank outside [0, C), ShapeError and DTypeError for other inputs. Throws DataError with
/// position and value of a length outside its tensor, and of a target that is not a class or is the blank (on a GPU the
/// loss is NaN, and the next wait for the device throws).
struct Ctc {
  struct Params {
    std::int64_t blank = 0;
    bool zero_infinity = false;
  };
  static constexpr OpInfo info{.name = "ctc",
                               .inputs = "log_probabilities, targets, input_lengths, target_lengths",
                               .precision = PrecisionClass::kFull,
                               .numerics = {.accumulate = DType::f64, .ulp_f32 = 0.51, .ulp_half = 0.51},
                               .policy_inputs = 1,
                               .family = OpFamily::kProbabilityLoss};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
