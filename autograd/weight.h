#pragma once

#include "binade/autograd/variable.h"

namespace binade {

/// True for a leaf that belongs to the model and not to the batch: an nn::Parameter, trained or frozen, or another leaf
/// that requires a gradient.
inline bool is_weight(const Variable& x) { return x.is_leaf() && (x.requires_grad() || x.state()->parameter); }

}  // namespace binade
