#pragma once

#include <initializer_list>

#include "binade/core/kernels/elementwise.h"
#include "binade/core/tensor.h"

namespace binade::ops {

/// Returns the order in which a kernel visits the elements of up to four tensors that broadcast to `shape`, as runs in
/// which each tensor advances by 1 or by 0 elements (repeats); there are as few runs as possible. The last operand is
/// the result. Throws ShapeError unless every operand broadcasts to `shape`.
Walk broadcast_walk(const Shape& shape, std::initializer_list<const Tensor*> operands);

}  // namespace binade::ops
