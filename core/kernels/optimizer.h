#pragma once

#include <cstdint>

#include "binade/core/optimizer_kernels.h"

namespace binade::cpu {

/// One block of the passes in core/optimizer_kernels.h, for one instruction-set level.
struct OptimizerBlockKernels {
  BlockScan (*scan)(const float* values, std::int64_t count) = nullptr;
  BlockExtremes (*update)(const UpdateArguments& arguments, const FlatBlock& block) = nullptr;
  void (*average)(float* average, const void* value, DType value_dtype, std::int64_t count, float weight) = nullptr;
};

}  // namespace binade::cpu
