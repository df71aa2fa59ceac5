#include "binade/cuda/register.h"

namespace binade::cuda {

void register_kernels() {
  register_tensor();
  register_elementwise();
  register_norm();
  register_conv();
  register_attention();
  register_products();
  register_move();
  register_reduce();
  register_pool();
  register_rows();
  register_losses();
  register_optimizer();
  register_step();
  register_look();
  register_embedding();
  register_fp8();
}

}  // namespace binade::cuda
