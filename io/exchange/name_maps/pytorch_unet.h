#pragma once

#include "binade/io/exchange/safetensors.h"

namespace binade::io {

/// Weights of a network that has Binade's module paths but PyTorch's layouts (torch.nn.Conv2d and friends) to Binade's
/// layouts and names, and back:
///
///     Conv2d.weight           (K, C, R, S)   <->  (K, R, S, C)
///     ConvTranspose2d.weight  (C, K, R, S)   <->  (C, R, S, K)
///
/// where every tensor of rank 4 is one of the two, which both read as "axis 1 goes last". Everything else is passed
/// through, batch norm's statistics and counts too.
TensorMap unet_from_pytorch(const TensorMap& theirs);
TensorMap unet_to_pytorch(const TensorMap& ours);

}  // namespace binade::io
