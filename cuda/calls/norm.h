#pragma once

#include "core/kernels/norm.h"

namespace binade::cuda {

/// core/kernels/norm.h says what they compute. The device cuts rows into blocks of its own: `rows_per_block` and
/// `partial` are not looked at.
using RowNormForwardCall = cpu::RowNormForward;
using RowNormBackwardCall = cpu::RowNormBackward;

}  // namespace binade::cuda
