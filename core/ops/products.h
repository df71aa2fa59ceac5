#pragma once

#include "core/kernel_slot.h"
#include "core/kernels/gemm.h"

namespace binade::ops {

/// What matmul, linear and their gradients are computed with.
KernelSlot<cpu::GemmKernels>& gemm_slot();
void register_gemm_cpu();

}  // namespace binade::ops
