#include "binade/core/kernel_slot.h"
#include "binade/core/ops/attention.h"
#include "binade/core/ops/batch_norm.h"
#include "binade/core/ops/convolutions.h"
#include "binade/core/ops/cross_entropy.h"
#include "binade/core/ops/dice.h"
#include "binade/core/ops/dropout.h"
#include "binade/core/ops/element_losses.h"
#include "binade/core/ops/elementwise.h"
#include "binade/core/ops/embedding.h"
#include "binade/core/ops/fp8.h"
#include "binade/core/ops/group_norm.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/core/ops/move.h"
#include "binade/core/ops/products.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/row_norm.h"
#include "binade/core/ops/softmax.h"
#include "binade/core/optimizer_kernels.h"
#include "binade/core/tensor_kernels.h"

namespace binade {

// The one list of CPU kernels: an op unit that has a KernelSlot declares `register_NAME_cpu()` in its header and is
// called here. A call, not a static initializer: a static library's linker would drop those.
void register_cpu_kernels() {
  ops::register_elementwise_cpu();
  ops::register_reduce_cpu();
  ops::register_softmax_cpu();
  ops::register_dropout_cpu();
  ops::register_element_losses_cpu();
  ops::register_cross_entropy_cpu();
  ops::register_dice_cpu();
  ops::register_row_norm_cpu();
  ops::register_move_cpu();
  ops::register_pool_cpu();
  ops::register_group_norm_cpu();
  ops::register_embedding_cpu();
  ops::register_batch_norm_cpu();
  ops::register_attention_cpu();
  ops::register_conv_cpu();
  ops::register_gemm_cpu();
  ops::register_fp8_cpu();
  register_cpu_optimizer_kernels();
  register_tensor_kernels_cpu();
}

}  // namespace binade
