#pragma once

#include "binade/core/optimizer_kernels.h"

namespace binade::cuda {

/// OptimizerKernels (core/optimizer_kernels.h) as calls. The spans lie in the host's memory; what they point at, in the
/// device's. Results are there on return.
using ScanCall = ScanArguments;
using UpdateCall = UpdateArguments;
using AverageCall = AverageArguments;
using LimitCall = LimitArguments;
using LimitUnitsCall = UnitLimitArguments;

}  // namespace binade::cuda
