#include "binade/core/step_kernels.h"

namespace binade {

KernelSlot<StepKernels>& step_kernels() {
  static KernelSlot<StepKernels> slot;
  return slot;
}

}  // namespace binade
