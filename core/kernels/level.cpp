#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/lane_types.h"

namespace binade::cpu::BINADE_ISA {

// Each family of loops is defined once per level by a source of kernel_sources. It has a declaration here, a line in
// the table below, and a field in Level.
const GemmKernels& gemm_kernels();
const ConvKernels& conv_kernels();
const AttentionKernels& attention_kernels();
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

Level loops_of_level() {
  return {
      .multiplies_bf16 = !std::is_same_v<Bf16Lane, FloatLane>,
      .gemm = gemm_kernels(),
      .conv = conv_kernels(),
      .attention = attention_kernels(),
      .optimizer = optimizer_block_kernels(),
      .row_norm = row_norm_kernels(),
      .column_norm = column_norm_kernels(),
      .pool = pool_kernels(),
      .embedding = embedding_kernels(),
      .recurrent = recurrent_kernels(),
      .fp8 = fp8_row_kernels(),
      .elementwise = &elementwise_kernels(),
      .reduction = &reduction_kernels(),
      .rows = &row_kernels(),
      .losses = &loss_kernels(),
  };
}

}  // namespace binade::cpu::BINADE_ISA
