#pragma once

#include <array>

#include "binade/autograd/variable.h"
#include "binade/core/ops/linear.h"
#include "binade/core/ops/matmul.h"
#include "binade/core/ops/projections.h"

namespace binade {

/// op(a) op(b) over the last two dimensions, batches broadcast: see ops::Matmul.
Variable matmul(const Variable& a, const Variable& b, const ops::Matmul::Params& params = {});

/// activation(x w^T + bias), w (out, in); an undefined bias is left out: see ops::Linear.
Variable linear(const Variable& x, const Variable& w, const Variable& bias = {},
                const ops::Linear::Params& params = {});

/// Three linear layers of one input side by side, by one product: x [w1; w2; w3]^T + [b1, b2, b3], the biases all
/// defined or all left out: see ops::Projections.
Variable projections(const Variable& x, const std::array<Variable, ops::Projections::kParts>& weights,
                     const std::array<Variable, ops::Projections::kParts>& biases = {});

}  // namespace binade
