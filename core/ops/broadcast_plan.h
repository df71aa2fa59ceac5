#pragma once

#include <initializer_list>

#include "binade/core/kernels/elementwise.h"
#include "binade/core/tensor.h"

namespace binade::ops {

/// How a kernel walks up to four tensors that broadcast to `shape`: as few runs as possible, each a row in which every
/// operand moves by 1 or stands still. The last operand is the result. Throws ShapeError unless every operand
/// broadcasts to `shape`.
Walk broadcast_walk(const Shape& shape, std::initializer_list<const Tensor*> operands);

}  // namespace binade::ops
