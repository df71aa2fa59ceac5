#pragma once

#include <array>

#include "binade/autograd/variable.h"
#include "binade/core/ops/linear.h"
#include "binade/core/ops/matmul.h"
#include "binade/core/ops/projections.h"

namespace binade {

/// Matrix product over the last two dimensions of a and b, each optionally transposed; the other dimensions are batches
/// and broadcast: see ops::Matmul.
Variable matmul(const Variable& a, const Variable& b, const ops::Matmul::Params& params = {});

/// activation(x w^T + bias), w (out, in); the bias is optional: see ops::Linear.
Variable linear(const Variable& x, const Variable& w, const Variable& bias = {},
                const ops::Linear::Params& params = {});

/// Computes three linear layers of the same input in one product: x [w1; w2; w3]^T + [b1, b2, b3]. Either all three
/// biases are given or none: see ops::Projections.
Variable projections(const Variable& x, const std::array<Variable, ops::Projections::kParts>& weights,
                     const std::array<Variable, ops::Projections::kParts>& biases = {});

}  // namespace binade
