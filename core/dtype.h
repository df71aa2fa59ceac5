#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "binade/core/error.h"
#include "binade/core/float16.h"
#include "binade/core/host_device.h"

namespace binade {

/// Element types of tensors. f64 is for checks (gradcheck, references), not for training.
enum class DType : std::uint8_t { f32, f16, bf16, f64, i64, i32, u8, boolean };

/// The DType of a C++ type. bool is stored as one byte.
template <class T>
inline constexpr DType kDTypeOf = [] {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, float16>) return DType::f16;
  if constexpr (std::is_same_v<T, bfloat16>) return DType::bf16;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
}();

constexpr std::size_t size_of(DType d) {
  switch (d) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::u8:
    case DType::boolean: return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType d) {
  switch (d) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f64: return "f64";
    case DType::i64: return "i64";
    case DType::i32: return "i32";
    case DType::u8: return "u8";
    case DType::boolean: return "bool";
  }
  return "?";
}

constexpr bool is_floating(DType d) { return d <= DType::f64; }
constexpr bool is_half(DType d) { return d == DType::f16 || d == DType::bf16; }
/// Returns the dtype in which ops sum values of dtype `d`, and in which they read biases and norm parameters: f64 for
/// f64, else f32.
constexpr DType accumulate_dtype(DType d) { return d == DType::f64 ? DType::f64 : DType::f32; }

/// Returns the dtype in which an op of two operands stores its result: the later of the two in the order bool, u8, i32,
/// i64, f16 and bf16, f32, f64; f32 for f16 with bf16. For example, i64 with f16 gives f16. A scalar tensor counts like
/// any other tensor (decision 0065).
constexpr DType promoted(DType a, DType b) {
  constexpr int kRank[] = {5, 4, 4, 6, 3, 2, 1, 0};  // in the order of the enumerators
  const int rank_a = kRank[static_cast<int>(a)], rank_b = kRank[static_cast<int>(b)];
  if (a != b && rank_a == rank_b) return DType::f32;
  return rank_a > rank_b ? a : b;
}

/// Range and precision of a floating dtype.
struct DTypeRange {
  double largest{};          ///< largest finite value
  double smallest_normal{};  ///< smallest positive normal value
  int mantissa_bits{};       ///< explicit bits: 10 for f16, 7 for bf16, 23 for f32
};
constexpr DTypeRange range_of(DType d) {
  switch (d) {
    case DType::f16: return {65504.0, 0x1p-14, 10};
    case DType::bf16: return {0x1.fep127, 0x1p-126, 7};
    case DType::f64: return {0x1.fffffffffffffp1023, 0x1p-1022, 52};
    default: return {0x1.fffffep127, 0x1p-126, 23};
  }
}

/// The type in which values stored as T are computed: double for double, float for every other floating type.
template <class T>
struct ComputeOf {
  using type = float;
};
template <>
struct ComputeOf<double> {
  using type = double;
};
/// The type in which values stored as T are computed.
template <class T>
using Compute = typename ComputeOf<T>::type;

/// Widens a stored value to its computing type. Exact.
template <class T>
constexpr BINADE_HD Compute<T> load(T x) {
  if constexpr (requires { x.to_float(); })
    return x.to_float();
  else
    return x;
}
/// Rounds to the stored type, to nearest even.
template <class T>
constexpr BINADE_HD T store(Compute<T> x) {
  if constexpr (requires { T::from_float(x); })
    return T::from_float(x);
  else
    return x;
}

/// A C++ arithmetic type, for scalar arguments of tensor functions.
template <class T>
concept Number = std::is_arithmetic_v<T>;

/// Passes a type to a generic lambda as an argument.
template <class T>
struct TypeTag {
  using type = T;
};

/// Throws DTypeError: `op` does not support `d`. Defined in dtype.cpp and not inline, because the kernels of every
/// instruction-set level use dispatch_float() and dispatch_any(), and kernel code must not contain exception code.
[[noreturn]] void throw_not_floating(DType d, std::string_view op);

/// Calls `f(TypeTag<T>{})` with the C++ type of a floating dtype (f32, f16, bf16, f64).
template <class F>
decltype(auto) dispatch_float(DType d, std::string_view op, F&& f) {
  switch (d) {
    case DType::f32: return f(TypeTag<float>{});
    case DType::f16: return f(TypeTag<float16>{});
    case DType::bf16: return f(TypeTag<bfloat16>{});
    case DType::f64: return f(TypeTag<double>{});
    default: throw_not_floating(d, op);
  }
}

/// Calls `f(TypeTag<T>{})` with the C++ type of any dtype.
template <class F>
decltype(auto) dispatch_any(DType d, std::string_view op, F&& f) {
  switch (d) {
    case DType::i64: return f(TypeTag<std::int64_t>{});
    case DType::i32: return f(TypeTag<std::int32_t>{});
    case DType::u8: return f(TypeTag<std::uint8_t>{});
    case DType::boolean: return f(TypeTag<bool>{});
    default: return dispatch_float(d, op, std::forward<F>(f));
  }
}

}  // namespace binade
