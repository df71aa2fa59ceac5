#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "binade/io/exchange/safetensors.h"

namespace binade::io {

/// Reads the tensors of a dictionary that torch.save() wrote (.pt, .pth, .bin; the zip format of PyTorch 1.6 and
/// newer). `entry` selects a dictionary in the file's dictionary: "model" for torch.save({"model": net.state_dict(),
/// …}), and "a.b" a dictionary within one; empty: the whole file is the state dict. Entries that are no tensors
/// (numbers, texts) are left out of a dictionary that has tensors.
///
/// Nothing of the file is executed (io/exchange/pickle.h). Tensors may share storages and have any strides; each result
/// is a contiguous copy on the host, and equal views become one tensor. Dtypes: f64 f32 f16 bf16 i64 i32 u8 bool.
/// Refused: tensors beyond their storage or with more elements than it (expand()), tensors of more than 4 times the
/// bytes of all storages plus 64 MiB, sparse and quantized tensors, files of TorchScript, files of PyTorch before 1.6.
/// Throws DataError whose text begins with `name`; if the file has several dictionaries, it lists them.
TensorMap decode_pytorch(std::span<const std::byte> file, const std::string& name, const std::string& entry = "");
/// Reads a regular file as decode_pytorch() does, one storage at a time.
TensorMap read_pytorch(const std::string& path, const std::string& entry = "");

/// Reads tensors from a file of torch.save() or a safetensors file, recognized by its first bytes. `entry` must be
/// empty for safetensors. Throws DataError.
TensorMap read_weights_file(const std::string& path, const std::string& entry = "");

}  // namespace binade::io
