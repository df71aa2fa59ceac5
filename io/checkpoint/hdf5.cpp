#include "binade/io/checkpoint/hdf5.h"

#include <fmt/core.h>

#include <new>

namespace binade::io::hdf5 {

QuietErrors::QuietErrors() {
  static std::recursive_mutex library;
  alone_ = std::unique_lock(library);
  H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}
QuietErrors::~QuietErrors() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }

void disable_plugins() {
  // A file can name any filter; the library would look for a shared object of that name and run it.
  static const herr_t done = H5PLset_loading_state(0);
  (void)done;
}

std::string error_stack() {
  std::string text;
  const auto add = [](unsigned, const H5E_error2_t* error, void* data) -> herr_t {
    auto& out = *static_cast<std::string*>(data);
    try {
      if (error->desc != nullptr && *error->desc != '\0') out += (out.empty() ? "" : " < ") + std::string(error->desc);
      return 0;
    } catch (const std::bad_alloc&) {  // an exception must not pass through a C library
      return -1;
    }
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, add, &text);
  return text.empty() ? "HDF5 gave no reason" : "HDF5 says: " + text;
}

namespace {

/// Makes a 16-bit float type from f32. The library requires after each call that all fields lie within the size, so the
/// fields are moved to the low 16 bits before the size is reduced.
Handle described_float(std::size_t sign_bit, std::size_t exponent_at, std::size_t exponent_bits,
                       std::size_t mantissa_bits, std::size_t bias, const char* what) {
  Handle type = own<Error>(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, what);
  checked<Error>(H5Tset_fields(type.get(), sign_bit, exponent_at, exponent_bits, 0, mantissa_bits), what);
  checked<Error>(H5Tset_size(type.get(), 2), what);
  checked<Error>(H5Tset_ebias(type.get(), bias), what);
  return type;
}

}  // namespace

Handle file_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return described_float(15, 10, 5, 10, 15, "describe f16");
    case DType::bf16: return described_float(15, 7, 8, 7, 127, "describe bf16");
    case DType::f32: return own<Error>(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "describe f32");
    case DType::f64: return own<Error>(H5Tcopy(H5T_IEEE_F64LE), H5Tclose, "describe f64");
    case DType::i64: return own<Error>(H5Tcopy(H5T_STD_I64LE), H5Tclose, "describe i64");
    case DType::i32: return own<Error>(H5Tcopy(H5T_STD_I32LE), H5Tclose, "describe i32");
    case DType::u8:
    case DType::boolean: return own<Error>(H5Tcopy(H5T_STD_U8LE), H5Tclose, "describe u8");
  }
  throw Error("describe an HDF5 type: unknown dtype");
}

}  // namespace binade::io::hdf5
