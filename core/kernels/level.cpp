#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/lane_types.h"

// Each family of loops is defined once per level by a source of `kernel_sources` (meson.build). It has a declaration
// here, a line in the table below, and a field in Level. BINADE_VECTOR_ISA is the level from which this level
// takes its loops without matrix products: itself, or a lower level with the same vector instructions.
namespace binade::cpu::BINADE_ISA {
const GemmKernels& gemm_kernels();
const ConvKernels& conv_kernels();
const AttentionKernels& attention_kernels();
}  // namespace binade::cpu::BINADE_ISA

namespace binade::cpu::BINADE_VECTOR_ISA {
const OptimizerBlockKernels& optimizer_block_kernels();
const RowNormKernels& row_norm_kernels();
const ColumnNormKernels& column_norm_kernels();
const PoolKernels& pool_kernels();
const EmbeddingKernels& embedding_kernels();
const Fp8RowKernels& fp8_row_kernels();
const RecurrentKernels& recurrent_kernels();
const ElementwiseKernels& elementwise_kernels();
const ReductionKernels& reduction_kernels();
const RowKernels& row_kernels();
const LossKernels& loss_kernels();
}  // namespace binade::cpu::BINADE_VECTOR_ISA

namespace binade::cpu::BINADE_ISA {

Level loops_of_level() {
  namespace vector = cpu::BINADE_VECTOR_ISA;
  return {
      .multiplies_bf16 = !std::is_same_v<Bf16Lane, FloatLane>,
      .gemm = gemm_kernels(),
      .conv = conv_kernels(),
      .attention = attention_kernels(),
      .optimizer = vector::optimizer_block_kernels(),
      .row_norm = vector::row_norm_kernels(),
      .column_norm = vector::column_norm_kernels(),
      .pool = vector::pool_kernels(),
      .embedding = vector::embedding_kernels(),
      .recurrent = vector::recurrent_kernels(),
      .fp8 = vector::fp8_row_kernels(),
      .elementwise = &vector::elementwise_kernels(),
      .reduction = &vector::reduction_kernels(),
      .rows = &vector::row_kernels(),
      .losses = &vector::loss_kernels(),
  };
}

}  // namespace binade::cpu::BINADE_ISA
