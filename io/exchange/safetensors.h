#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "binade/core/tensor.h"

namespace binade::io {

/// Tensors by name.
using TensorMap = std::map<std::string, Tensor>;

/// The contents of a safetensors file.
struct Safetensors {
  TensorMap tensors{};
  std::map<std::string, std::string> metadata{};
};

/// Decodes the safetensors format (huggingface/safetensors): u64 length of a JSON header, the header, the data. Strict:
/// the header has at most 100 MB and is one JSON object with exactly the specified members, names are unique, dtypes
/// exist in Binade, tensors have at most 8 dimensions, their bytes fit shape and dtype, and they cover the data without
/// overlap or hole. Allocations are bounded by the file's size. Throws DataError that names the defect and its
/// position.
Safetensors decode_safetensors(std::span<const std::byte> file);
/// Encodes tensors sorted by element size, largest first, then by name; the data begin at a multiple of 64 bytes. The
/// same tensors give the same bytes. Tensors on a device are copied to the host.
std::vector<std::byte> encode_safetensors(const Safetensors& content);

/// Reads a regular file; a symbolic link in its last component is not followed. Throws DataError that names the file.
Safetensors read_safetensors(const std::string& path, std::uint64_t limit = std::uint64_t{1} << 40);
/// Writes a file as io/files/output_file.h does. Throws StorageError that names the file.
void write_safetensors(const std::string& path, const Safetensors& content);

}  // namespace binade::io
