#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "binade/core/error.h"
#include "binade/core/float16.h"
#include "binade/core/host_device.h"

namespace binade {

/// Element types. `f64` exists for checks (gradcheck, references), never for training.
enum class DType : std::uint8_t { f32, f16, bf16, f64, i64, i32, u8, boolean };

/// C++ type -> DType. `bool` is stored as one byte.
template <class T>
inline constexpr DType kDTypeOf = [] {
  static_assert(sizeof(T) == 0, "no DType for this C++ type");
  return DType::f32;
}();
template <>
inline constexpr DType kDTypeOf<float> = DType::f32;
template <>
inline constexpr DType kDTypeOf<float16> = DType::f16;
template <>
inline constexpr DType kDTypeOf<bfloat16> = DType::bf16;
template <>
inline constexpr DType kDTypeOf<double> = DType::f64;
template <>
inline constexpr DType kDTypeOf<std::int64_t> = DType::i64;
template <>
inline constexpr DType kDTypeOf<std::int32_t> = DType::i32;
template <>
inline constexpr DType kDTypeOf<std::uint8_t> = DType::u8;
template <>
inline constexpr DType kDTypeOf<bool> = DType::boolean;

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
/// What sums over values of `d`, and the statistics and parameters that go with them, are held in.
constexpr DType accumulate_dtype(DType d) { return d == DType::f64 ? DType::f64 : DType::f32; }

/// Largest finite value and smallest positive normal of a floating dtype.
struct DTypeRange {
  double largest{};
  double smallest_normal{};
  int mantissa_bits{};  ///< explicit bits: 10 for f16, 7 for bf16, 23 for f32
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
template <class T>
using Compute = typename ComputeOf<T>::type;

/// Widens one stored value to its computing type (exact) and rounds back once (nearest even).
template <class T>
constexpr BINADE_HD Compute<T> load(T x) {
  if constexpr (requires { x.to_float(); })
    return x.to_float();
  else
    return x;
}
template <class T>
constexpr BINADE_HD T store(Compute<T> x) {
  if constexpr (requires { T::from_float(x); })
    return T::from_float(x);
  else
    return x;
}

template <class T>
struct TypeTag {
  using type = T;
};

/// Throws DTypeError. Here and not inline: kernels of every instruction-set level dispatch on dtypes, and none of them
/// may hold a copy of an exception's code.
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

/// The same over every dtype.
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
