#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Connectionist temporal classification (Graves et al., 2006): the negative log-likelihood of label sequences that
/// have no alignment with the steps of the input.
///   log_probabilities (T, N, C) floating, targets (N, S), input_lengths (N), target_lengths (N)   ->   losses (N)
///   loss_n = -log(the sum over all paths of prod_t p(t, n, path_t)), where path_t is a class for each of the first
///            input_lengths[n] steps, and a path that is written without repetitions, and then without blanks, is
///            targets[n, 0 … target_lengths[n])
///   gx[t, n, c] = -gy_n (the share of the paths, by probability, that are at class c at step t); 0 beyond the length
/// The losses and gradients are computed in double by the forward-backward algorithm in log space, and rounded once (a
/// loss near 0 has the absolute error of its sums, about 1e-16 for each step); on a CPU, threads divide the samples
/// alone. If no path exists (a target that, with a blank between equal neighbors, is longer than its input, or
/// log-probabilities of -inf), the loss is infinite and the gradient NaN, or both 0 with zero_infinity. Saves the
/// inputs; backward computes the forward part again, in T (2 S + 1) doubles of memory for each sample that is computed
/// at a time (on a GPU, all of the batch).
///
/// This is the derivative by the log-probabilities. PyTorch's ctc_loss returns that by the logits, which is the same
/// after the backward of log_softmax.
///
/// Throws ArgumentError for a blank outside [0, C), ShapeError and DTypeError for other inputs. Throws DataError with
/// position and value of a length outside its tensor, and of a target that is no class or the blank (on a GPU the loss
/// is NaN, and the next wait for the device throws).
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
