#include "binade/core/ops/products.h"

#include "binade/core/kernels/dispatch.h"
#include "binade/core/ops/input_gradient.h"

namespace binade::ops {

KernelSlot<cpu::GemmKernels>& gemm_slot() {
  static KernelSlot<cpu::GemmKernels> slot;
  return slot;
}

void register_gemm_cpu() {
  // Looked up at each call: tests switch levels while the program runs.
  gemm_slot().fill(DeviceType::kCpu,
                   {.gemm = [](const cpu::GemmArgs& args) { cpu::kernels().gemm.gemm(args); },
                    .column_sums = [](const void* x, DType dtype, std::int64_t m, std::int64_t n, std::int64_t x_row,
                                      void* sums) { cpu::kernels().gemm.column_sums(x, dtype, m, n, x_row, sums); },
                    .activation_backward =
                        [](Activation activation, DType dtype, const void* z, const void* gy, void* gz, std::int64_t m,
                           std::int64_t n, void* sums) {
                          cpu::kernels().gemm.activation_backward(activation, dtype, z, gy, gz, m, n, sums);
                        },
                    .activate = [](Activation activation, DType dtype, const void* z, void* y,
                                   std::int64_t n) { cpu::kernels().gemm.activate(activation, dtype, z, y, n); }});
}

void bias_gradient(const OpInfo& info, const Tensor& gy, GradSink& gx, int i) {
  InputGradient gb(gx, i, accumulate_dtype(gy.dtype()));
  if (!gb.wanted()) return;
  gemm_slot()
      .on(gy.device(), info.name)
      .column_sums(gy.raw(), gy.dtype(), gy.shape().rows(), gy.shape().cols(), gy.pitch(), gb.raw());
  gb.finish();
}

}  // namespace binade::ops
