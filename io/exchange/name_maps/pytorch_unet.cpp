#include "binade/io/exchange/name_maps/pytorch_unet.h"

#include "binade/io/exchange/name_maps/axes.h"

namespace binade::io {

TensorMap unet_from_pytorch(const TensorMap& theirs) {
  TensorMap ours;
  for (const auto& [name, tensor] : theirs)
    ours.emplace(name, tensor.rank() == 4 ? permuted(tensor, {0, 2, 3, 1}) : tensor);
  return ours;
}

TensorMap unet_to_pytorch(const TensorMap& ours) {
  TensorMap theirs;
  for (const auto& [name, tensor] : ours)
    theirs.emplace(name, tensor.rank() == 4 ? permuted(tensor, {0, 3, 1, 2}) : tensor);
  return theirs;
}

}  // namespace binade::io
