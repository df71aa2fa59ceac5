#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "binade/core/tensor.h"

namespace binade::io {

/// Tensors by name, as exchange files hold them.
using TensorMap = std::map<std::string, Tensor>;

struct Safetensors {
  TensorMap tensors{};
  std::map<std::string, std::string> metadata{};
};

/// The safetensors format (huggingface/safetensors): u64 length of a JSON header, the header, the data. Read strictly:
/// the header at most 100 MB and inside the file, one JSON object of exactly the known members, no name twice, dtypes
/// that Binade has, at most 8 dimensions, every tensor's bytes fit its shape and dtype, and the tensors cover the data
/// in order without overlap or hole. Nothing is allocated that the file's own size does not bound. Throws DataError
/// saying what is wrong and where.
Safetensors decode_safetensors(std::span<const std::byte> file);
/// Sorted by element size, largest first, then by name; data begin on a multiple of 64. The same tensors give the same
/// bytes. Tensors are copied from their device and made contiguous when need be.
std::vector<std::byte> encode_safetensors(const Safetensors& content);

/// A regular file, no link followed in its last component. Throws DataError naming it.
Safetensors read_safetensors(const std::string& path, std::uint64_t limit = std::uint64_t{1} << 40);
/// Writes as io/files/output_file.h does. Throws StorageError naming the file.
void write_safetensors(const std::string& path, const Safetensors& content);

}  // namespace binade::io
