#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "binade/core/tensor.h"

namespace binade::io {

/// Arrays by name, as np.load() gives them for a .npz file.
using NpzArrays = std::map<std::string, Tensor>;

/// Options of write_npz().
struct NpzOptions {
  bool compress = false;  ///< true: deflated, as by np.savez_compressed()
};

/// Decodes a .npz file, a zip archive of .npy files, stored or deflated (np.savez, np.savez_compressed). An array has
/// the name of its member without ".npy". Dtypes and errors are those of decode_npy(); memory is bounded by the size of
/// the file times the largest expansion of deflate. Throws DataError whose text begins with `name`.
NpzArrays decode_npz(std::span<const std::byte> file, const std::string& name);
/// Reads a regular file as decode_npz() does.
NpzArrays read_npz(const std::string& path);

/// Encodes arrays as a .npz file; the same arrays give the same bytes. Dtypes are those of encode_npy().
std::vector<std::byte> encode_npz(const NpzArrays& arrays, const NpzOptions& options = {});
/// Writes a file as io/files/output_file.h does. Throws StorageError that names the file.
void write_npz(const std::string& path, const NpzArrays& arrays, const NpzOptions& options = {});

}  // namespace binade::io
