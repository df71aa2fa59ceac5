#pragma once

#include "binade/autograd/variable.h"
#include "binade/core/ops/cross_entropy.h"
#include "binade/core/ops/dice.h"
#include "binade/core/ops/element_losses.h"

/// Losses: one f32 number each, whatever the inputs are stored in. Formulas in core/ops/cross_entropy.h, dice.h and
/// element_losses.h. A loss computed outside every module carries the path "loss".
namespace binade {

using ops::Reduction;

/// logits (..., V) against class ids (...).
Variable cross_entropy(const Variable& logits, const Variable& targets, const ops::CrossEntropy::Params& options = {});
/// Logits against 0/1 (or soft) targets of the same shape.
Variable bce_with_logits(const Variable& logits, const Variable& targets,
                         const ops::BceWithLogits::Params& options = {});
/// Probabilities against targets. Under a low-precision policy a sigmoid's output is refused (ArgumentError): rounded
/// to 16 bits it reaches 0 and 1, where the loss is infinite; bce_with_logits takes the sigmoid's input instead.
Variable bce(const Variable& probabilities, const Variable& targets, Reduction reduction = Reduction::kMean);
Variable dice(const Variable& probabilities, const Variable& targets, double smooth = 1);
Variable mse(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean);
Variable l1(const Variable& x, const Variable& targets, Reduction reduction = Reduction::kMean);
Variable huber(const Variable& x, const Variable& targets, double delta = 1, Reduction reduction = Reduction::kMean);
/// Log-probabilities against probabilities; Reduction::kBatchMean divides by dimension 0 (the mathematical mean).
Variable kl_div(const Variable& log_probabilities, const Variable& targets, Reduction reduction = Reduction::kMean);

}  // namespace binade
