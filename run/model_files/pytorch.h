#pragma once

#include <string>

#include "binade/io/exchange/name_map.h"
#include "binade/nn/module.h"

namespace binade {

/// Options of load_pytorch() and save_pytorch().
struct PytorchOptions {
  /// Rules for names and layouts that do not follow from the model; they come before those of pytorch_names(). A rule
  /// that states no layout gets that of the module that owns the tensor.
  io::NameMap names{};
  std::string entry{};  ///< dictionary in a file of torch.save() that has the weights, such as "model"; empty: the file
  bool strict = true;   ///< false: missing and unexpected tensors are returned, not thrown
};

/// Loads weights and buffers of a PyTorch model with the same structure and names into a model: a state dict from a
/// safetensors file or from a file of torch.save() (io/exchange/pytorch_file.h; nothing of it is executed). Names and
/// layouts are converted by the kinds of the model's modules (pytorch_names()). Floating tensors of another dtype are
/// rounded once. A tied parameter may occur under several names if the values are equal. The prefixes "module." and
/// "_orig_mod." are removed if all names have them. num_batches_tracked may be missing.
///
/// Throws DataError, which lists all of them, for wrong shapes and, if `strict`, for missing and unexpected tensors;
/// the model is then unchanged. If not `strict`, returns the missing and unexpected names.
///
///     load_pytorch(model, "resnet.safetensors");
///     load_pytorch(model, "checkpoint.pt", {.names = io::NameMap::read("names.txt"), .entry = "state_dict"});
nn::LoadResult load_pytorch(nn::Module& model, const std::string& path, const PytorchOptions& options = {});

/// Writes weights and buffers as a safetensors file with PyTorch's names and layouts. In PyTorch:
/// `model.load_state_dict(safetensors.torch.load_file(path))`. `options.entry` and `strict` are ignored. Throws
/// StorageError; ArgumentError if a rule does not fit.
void save_pytorch(nn::Module& model, const std::string& path, const PytorchOptions& options = {});

/// Returns the rules that convert between the names and layouts of `model` and of a PyTorch model with the same
/// structure and names:
///
///     Conv1d, Conv2d, Conv3d and their transposes      axis 1 of the filter becomes the last
///     MultiHeadAttention                               in_proj_weight or q_proj_weight, …; out_proj
///     TransformerEncoderLayer, TransformerDecoderLayer self_attn, multihead_attn, linear1, linear2
///     WeightNorm, SpectralNorm                         weight_g, weight_v; weight_orig, weight_u, weight_v (order of a
///                                                      filter's elements); read also as "parametrizations.weight.…"
///     Linear::fp8_amax                                 only Binade has it
///     all others, among them Lstm, Gru, BatchNorm2d    equal
///
/// Binade's own names ("attention.query.weight") are read too. A tied parameter has a rule for each of its names. One
/// case does not follow from the kinds of modules: a Linear after an nn::Flatten of images has its columns in another
/// order (rule "flattened=CHANNELS", docs/exchange.md).
io::NameMap pytorch_names(nn::Module& model);

}  // namespace binade
