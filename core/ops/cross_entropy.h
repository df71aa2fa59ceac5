#pragma once

#include "binade/core/ops/op.h"
#include "binade/core/ops/reduction.h"

namespace binade::ops {

/// Computes softmax and the negative log-likelihood in one op.
///   logits (..., V) floating, targets (...) i64, i32 or u8   ->   loss () in f32, or (...) with Reduction::kNone
///   loss of a row = log(sum_j exp(x_j)) - (1 - e) x_target - e mean_j(x_j),   e = label_smoothing
///   loss = mean over rows whose target is not ignore_index, sum over these rows (kBatchMean: divided by the extent of
///          the targets' dimension 0), or the losses of all rows, 0 if the row is ignored
///   gx_j = g (softmax(x)_j - (1 - e) [j == target] - e / V); 0 in ignored rows. g: gy / divisor, or the row's gy
/// Forward reads the logits twice, backward once; both compute in f32 (f64 for f64). The losses of rows are added in a
/// fixed order. Saves logits, targets and two numbers per row, but no probabilities. The gradient overwrites the logits
/// if they have no other owner (GradSink::destination_over; a temporary in the same C++ expression is an owner). If
/// every row is ignored, the mean is NaN (0 / 0, as in PyTorch) and the gradient 0. Throws DataError with position and
/// value of a target outside [0, V) that is not ignore_index (on a GPU the loss is NaN, and the next wait for the
/// device throws). Throws ShapeError and DTypeError for inputs of other shapes and dtypes.
struct CrossEntropy {
  struct Params {
    std::int64_t ignore_index = -100;
    double label_smoothing = 0;
    Reduction reduction = Reduction::kMean;
  };
  static constexpr OpInfo info{.name = "cross_entropy",
                               .inputs = "logits, targets",
                               .precision = PrecisionClass::kFull,
                               .policy_inputs = 1,
                               .family = OpFamily::kProbabilityLoss,
                               .observed = Observed::kByKernels,
                               .range = ranges::not_negative};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

}  // namespace binade::ops
