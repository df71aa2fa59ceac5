#pragma once

#include "binade/io/exchange/name_map.h"

namespace binade::io {

/// Convert weights of a network with Binade's module paths between the layouts of PyTorch (torch.nn.Conv2d and others)
/// and of Binade: the tensors of rank 4 are filters, and axis 1 becomes the last. Other tensors are unchanged.
inline TensorMap unet_from_pytorch(const TensorMap& theirs) {
  return NameMap().add("{*} -> {*} : filter").from_theirs(theirs).tensors;
}
inline TensorMap unet_to_pytorch(const TensorMap& ours) {
  return NameMap().add("{*} -> {*} : filter").to_theirs(ours).tensors;
}

}  // namespace binade::io
