#include "binade/core/kernels/pointwise.h"

namespace binade::cpu::BINADE_ISA {

const ElementwiseKernels& elementwise_kernels();
const ReductionKernels& reduction_kernels();
const RowKernels& row_kernels();
const LossKernels& loss_kernels();

const PointwiseKernels& pointwise_kernels() {
  static const PointwiseKernels kernels{&elementwise_kernels(), &reduction_kernels(), &row_kernels(), &loss_kernels()};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
