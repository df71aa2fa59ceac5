#pragma once

#include <initializer_list>

#include "binade/core/kernels/elementwise.h"
#include "binade/core/tensor.h"

namespace binade::ops {

/// The order in which a kernel visits up to four tensors that broadcast to `shape`: as few runs as possible, in each of
/// which every operand advances by 1 or by 0. The last operand is the result. Throws ShapeError unless every operand
/// broadcasts to `shape`.
Walk broadcast_walk(const Shape& shape, std::initializer_list<const Tensor*> operands);

}  // namespace binade::ops
