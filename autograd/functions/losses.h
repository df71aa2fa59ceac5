#pragma once

#include "binade/autograd/variable.h"
#include "binade/core/ops/cross_entropy.h"
#include "binade/core/ops/dice.h"
#include "binade/core/ops/element_losses.h"

/// Losses: each is one f32 number for inputs of any dtype. Formulas in core/ops/cross_entropy.h, dice.h and
/// element_losses.h. A loss computed outside modules has the path "loss".
namespace binade {

using ops::Reduction;

/// Of logits (..., V) and class indices (...).
Variable cross_entropy(const Variable& logits, const Variable& targets, const ops::CrossEntropy::Params& options = {});
/// Of logits and targets in [0, 1] of the same shape.
Variable bce_with_logits(const Variable& logits, const Variable& targets,
                         const ops::BceWithLogits::Params& options = {});
/// Of probabilities and targets. Throws ArgumentError for the output of a sigmoid under a low-precision policy, because
/// rounded to 16 bits it reaches 0 and 1, where the loss is infinite; use bce_with_logits with the sigmoid's input.
Variable bce(const Variable& probabilities, const Variable& targets, Reduction reduction = Reduction::kMean);
Variable dice(const Variable& probabilities, const Variable& targets, double smooth = 1);
Variable mse(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean);
Variable l1(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean);
Variable huber(const Variable& x, const Variable& targets, double delta = 1, Reduction reduction = Reduction::kMean);
/// Of log-probabilities and probabilities; Reduction::kBatchMean divides by dimension 0 (the mathematical mean).
Variable kl_div(const Variable& log_probabilities, const Variable& targets, Reduction reduction = Reduction::kMean);

}  // namespace binade
