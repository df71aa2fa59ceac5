#pragma once

#include "core/kernel_slot.h"
#include "core/kernels/gemm.h"
#include "core/ops/op.h"

namespace binade::ops {

/// What matmul, linear and their gradients are computed with.
KernelSlot<cpu::GemmKernels>& gemm_slot();
void register_gemm_cpu();

/// The gradient of input i, a bias: sums of gy (contiguous) over everything but its last dimension. Nothing where it is
/// not wanted.
void bias_gradient(const OpInfo& info, const Tensor& gy, GradSink& gx, int i);

}  // namespace binade::ops
