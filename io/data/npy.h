#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/tensor.h"

namespace binade::io {

/// An array from a .npy file.
struct NpyArray {
  Tensor values{};     ///< f16, f32, f64, i32, i64, u8 or bool; i1, i2 and u2 are widened to i32
  std::string type{};  ///< NumPy's type in the file, without byte order: "f4", "u2"
};

/// Decodes a .npy file (numpy.lib.format, versions 1.0, 2.0 and 3.0), little-endian, row-major or in Fortran order
/// (which is converted), of at most 8 dimensions. The header is parsed as the dictionary that NumPy writes and never
/// evaluated; allocations are bounded by the file's size. Throws DataError whose text begins with `name`, if possible
/// with Python code that converts the array, for: big-endian numbers, Python objects (pickles, which are programs),
/// records, texts, complex numbers, times, integers without a matching dtype, a malformed header, and data that are
/// longer or shorter than the header says.
NpyArray decode_npy(std::span<const std::byte> file, const std::string& name);
NpyArray read_npy(const std::string& path);

/// Encodes a tensor as a .npy file of version 1.0, row-major; a tensor on a device is copied to the host. NumPy has no
/// bf16: such a tensor is written as f4, which has the same values.
std::vector<std::byte> encode_npy(const Tensor& tensor);
/// Writes a file as io/files/output_file.h does. Throws StorageError that names the file.
void write_npy(const std::string& path, const Tensor& tensor);

/// True if `bytes` begin with the magic of a .npy file.
bool is_npy(std::string_view bytes);

}  // namespace binade::io
