#pragma once

#include <functional>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade {

/// Runs `segment` without keeping what its backward will need, and runs it once more when backward arrives: memory of
/// one segment for the time of one more forward. The same bits as without: tape indices (and so random numbers), module
/// path and policy are restored for the second run, and statistics do not move in it. (But for a segment that ends in a
/// linear layer with an activation, read by another linear layer outside: in halves the gradient between the two is
/// rounded once more there, docs/decisions/0034.)
///
/// `segment` must be a function of its argument and of parameters alone.
/// Source: Chen et al., "Training deep nets with sublinear memory cost", 2016.
Variable recompute(std::function<Variable(const Variable&)> segment, const Variable& x);

}  // namespace binade
