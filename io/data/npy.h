#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "binade/core/tensor.h"

namespace binade::io {

/// An array as NumPy's .npy files hold it.
struct NpyArray {
  Tensor values{};     ///< f16, f32, f64, i32, i64, u8 or bool; i1, i2 and u2 are widened to i32
  std::string type{};  ///< as in the file, without byte order: "f4", "u2"
};

/// Reads a .npy file (numpy.lib.format, versions 1.0, 2.0 and 3.0), row-major and little-endian, of at most 8
/// dimensions. Its header is read as the one dictionary that NumPy writes and never evaluated; nothing is allocated
/// that the file's own size does not bound. Throws DataError beginning with `name`, with the line of Python that
/// converts the array where there is one: Fortran order, big-endian, Python objects (which are pickles, and pickles are
/// programs), records, texts, complex numbers, times, integers that no dtype here holds; a header that is none, and
/// data that are longer or shorter than it says.
NpyArray decode_npy(std::span<const std::byte> file, const std::string& name);
NpyArray read_npy(const std::string& path);

/// Whether a file begins as one.
bool is_npy(std::string_view bytes);

}  // namespace binade::io
