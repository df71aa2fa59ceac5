#pragma once

#include "binade/io/exchange/name_maps/axes.h"

namespace binade::io {

/// Convert weights of a network with Binade's module paths between the layouts of PyTorch (torch.nn.Conv2d and others)
/// and of Binade:
///
///     Conv2d.weight           (K, C, R, S)   <->  (K, R, S, C)
///     ConvTranspose2d.weight  (C, K, R, S)   <->  (C, R, S, K)
///
/// Every tensor of rank 4 is one of the two, and in both cases axis 1 becomes the last. Other tensors are unchanged.
inline TensorMap unet_from_pytorch(const TensorMap& theirs) { return permuted(theirs, {0, 2, 3, 1}); }
inline TensorMap unet_to_pytorch(const TensorMap& ours) { return permuted(ours, {0, 3, 1, 2}); }

}  // namespace binade::io
