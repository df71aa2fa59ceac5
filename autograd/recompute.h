#pragma once

#include <functional>
#include <span>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

/// Runs `segment` without saving tensors for backward, and runs it again during backward. This saves memory and costs
/// the time of one more forward. The bits are the same as without recompute, because tape indices (and so random
/// numbers), module path and policy are restored for the second execution, in which statistics do not change. There is
/// one exception. If the segment ends in a linear layer with an activation and another linear layer reads the result,
/// then in 16 bits the gradient between them is rounded once more (docs/decisions/0034).
///
/// `segment` must depend on its argument and on parameters alone. It is kept until backward, and called there after the
/// caller of recompute() has returned: capture modules by reference, and nothing that lives shorter than the step. A
/// value that it stores in a captured variable has no gradient, and an op that reads it outside is an AutogradError:
/// return it instead. Source: Chen et al., "Training deep nets with sublinear memory cost", 2016.
Variable recompute(std::function<Variable(const Variable&)> segment, const Variable& x);

/// The same for several inputs and results:
///
///     const std::vector<Variable> out = recompute(
///         [this](std::span<const Variable> in) { return std::vector{block(in[0], in[1]), balance(in[0])}; }, {x,
///         mask});
std::vector<Variable> recompute(std::function<std::vector<Variable>(std::span<const Variable>)> segment,
                                const std::vector<Variable>& inputs);

}  // namespace binade
