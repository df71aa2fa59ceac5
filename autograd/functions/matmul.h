#pragma once

#include "autograd/variable.h"
#include "core/ops/linear.h"
#include "core/ops/matmul.h"

namespace binade {

/// op(a) op(b) over the last two dimensions, batches broadcast: see ops::Matmul.
Variable matmul(const Variable& a, const Variable& b, const ops::Matmul::Params& params = {});

/// activation(x w^T + bias), w (out, in); an undefined bias is left out: see ops::Linear.
Variable linear(const Variable& x, const Variable& w, const Variable& bias = {},
                const ops::Linear::Params& params = {});

}  // namespace binade
