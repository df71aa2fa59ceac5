#include "binade/core/look_kernels.h"

#include "binade/core/tensor.h"

namespace binade {

LookedAt looked_at(const Tensor& tensor) {
  return {
      {const_cast<void*>(tensor.raw()), tensor.dtype(), tensor.pitch()}, tensor.shape().rows(), tensor.shape().cols()};
}

KernelSlot<LookKernels>& look_kernels() {
  static KernelSlot<LookKernels> slot;
  return slot;
}

}  // namespace binade
