#pragma once

#include <initializer_list>

#include "binade/core/kernels/elementwise.h"
#include "binade/core/tensor.h"

namespace binade::ops {

/// Returns the order in which a kernel visits up to four tensors that broadcast to `shape`: the fewest runs in which
/// every operand advances by 1 or by 0 elements. The last operand is the result. Throws ShapeError unless every operand
/// broadcasts to `shape`.
Walk broadcast_walk(const Shape& shape, std::initializer_list<const Tensor*> operands);

}  // namespace binade::ops
