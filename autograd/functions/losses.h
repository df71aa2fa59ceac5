#pragma once

#include "binade/autograd/variable.h"
#include "binade/core/ops/cross_entropy.h"
#include "binade/core/ops/element_losses.h"

/// Losses. Each returns one f32 number for inputs of any dtype. Formulas are in core/ops/cross_entropy.h,
/// core/ops/dice.h and core/ops/element_losses.h. A loss computed outside modules gets the module path "loss".
namespace binade {

using ops::Reduction;

/// `logits` (..., V), `targets` (...) with class indices in [0, V).
Variable cross_entropy(const Variable& logits, const Variable& targets, const ops::CrossEntropy::Params& options = {});
/// Binary cross entropy of the sigmoid of `logits`. `targets` in [0, 1] have the shape of `logits`.
Variable bce_with_logits(const Variable& logits, const Variable& targets,
                         const ops::BceWithLogits::Params& options = {});
/// Binary cross entropy of probabilities. Throws ArgumentError under a low-precision policy if they are the output of a
/// sigmoid: rounded to 16 bits, it reaches 0 and 1, where the loss is infinite. Use bce_with_logits with the sigmoid's
/// input instead.
Variable bce(const Variable& probabilities, const Variable& targets, Reduction reduction = Reduction::kMean);
Variable dice(const Variable& probabilities, const Variable& targets, double smooth = 1);
Variable mse(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean);
Variable l1(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean);
Variable huber(const Variable& x, const Variable& targets, double delta = 1, Reduction reduction = Reduction::kMean);
/// Kullback-Leibler divergence of log-probabilities from `targets`, which are probabilities. Reduction::kBatchMean
/// divides the sum by the extent of dimension 0 and so gives the mean divergence per sample.
Variable kl_div(const Variable& log_probabilities, const Variable& targets, Reduction reduction = Reduction::kMean);

}  // namespace binade
