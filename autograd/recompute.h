#pragma once

#include <functional>

#include "binade/autograd/variable.h"

namespace binade {

/// Runs `segment` without saving tensors for backward, and runs it again during backward. This saves memory and costs
/// the time of one more forward. The bits are the same as without recompute, because tape indices (and so random
/// numbers), module path and policy are restored for the second execution, in which statistics do not change. There is
/// one exception. If the segment ends in a linear layer with an activation and another linear layer reads the result,
/// then in 16 bits the gradient between them is rounded once more (docs/decisions/0034).
///
/// `segment` must depend on its argument and on parameters alone. Source: Chen et al., "Training deep nets with
/// sublinear memory cost", 2016.
Variable recompute(std::function<Variable(const Variable&)> segment, const Variable& x);

}  // namespace binade
