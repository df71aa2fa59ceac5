#pragma once

#include "binade/core/kernels/norm.h"
#include "binade/core/ops/norm_calls.h"

namespace binade::cuda {

/// core/kernels/norm.h says what they compute. The device cuts rows into blocks of its own: `rows_per_block` and
/// `partial` are not looked at.
using RowNormForwardCall = cpu::RowNormForward;
using RowNormBackwardCall = cpu::RowNormBackward;

using BatchNormForwardCall = ops::BatchNormForward;
using BatchNormBackwardCall = ops::BatchNormBackward;
using MoveStatisticsCall = ops::MoveStatistics;
using GroupNormForwardCall = ops::GroupNormForward;
using GroupNormBackwardCall = ops::GroupNormBackward;

}  // namespace binade::cuda
