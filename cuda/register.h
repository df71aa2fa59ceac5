#pragma once

namespace binade::cuda {

/// Fills every kernel slot's CUDA entry. Called when the GPU is opened.
void register_kernels();

// One family of slots each, in cuda/slots/.
void register_conv();
void register_elementwise();
void register_norm();
void register_attention();
void register_products();
void register_move();
void register_reduce();
void register_pool();
void register_rows();
void register_losses();
void register_optimizer();
void register_step();
void register_look();
void register_embedding();
void register_fp8();
void register_tensor();

}  // namespace binade::cuda
