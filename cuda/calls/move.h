#pragma once

#include "binade/core/ops/move.h"

namespace binade::cuda {

/// MoveKernels (core/ops/move.h) as calls: its arguments are plain already.
using BoxCall = ops::BoxCopy;
using PermuteCall = ops::PermuteCopy;

}  // namespace binade::cuda
