#include "core/ops/convolutions.h"

#include "core/kernels/dispatch.h"
#include "core/ops/products.h"

namespace binade::ops {

KernelSlot<cpu::ConvKernels>& conv_slot() {
  static KernelSlot<cpu::ConvKernels> slot;
  return slot;
}

void register_conv_cpu() {
  conv_slot().fill(
      DeviceType::kCpu,
      {.forward = [](const cpu::ConvArgs& args) { cpu::kernels().conv.forward(args); },
       .data_gradient = [](const cpu::ConvArgs& args) { cpu::kernels().conv.data_gradient(args); },
       .weight_gradient = [](const cpu::ConvWeightArgs& args) { cpu::kernels().conv.weight_gradient(args); }});
}

void filter_gradient(const cpu::ConvShape& shape, const Tensor& x, const Tensor& gy, Tensor to, const char* op) {
  const DType sums = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Tensor gw = to.dtype() == sums ? to : Tensor::empty(to.shape(), sums, to.device());
  conv_slot()
      .on(x.device(), op)
      .weight_gradient({.shape = shape,
                        .in = x.dtype(),
                        .x = x.raw(),
                        .x_pitch = x.pitch(),
                        .gy = gy.raw(),
                        .gy_pitch = gy.pitch(),
                        .gw = gw.mutable_raw()});
  if (!gw.shares_storage_with(to)) to.copy_from(gw);
}

void bias_gradient(const Tensor& gy, Tensor to, const char* op) {
  const DType sums = gy.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Tensor gb = to.dtype() == sums ? to : Tensor::empty(to.shape(), sums, to.device());
  gemm_slot()
      .on(gy.device(), op)
      .column_sums(gy.raw(), gy.dtype(), gy.shape().rows(), gy.shape().cols(), gy.pitch(), gb.mutable_raw());
  if (!gb.shares_storage_with(to)) to.copy_from(gb);
}

}  // namespace binade::ops
