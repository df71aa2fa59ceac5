#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "binade/core/dtype.h"

/// Arguments of elementwise kernels. An op of a list (core/ops/lists.h) is identified by its position in the list.
namespace binade {

/// Elements of any dtype that a kernel reads.
struct In {
  const void* data = nullptr;
  DType dtype = DType::f32;
  In at(std::int64_t element) const {
    return {static_cast<const std::byte*>(data) + element * static_cast<std::int64_t>(size_of(dtype)), dtype};
  }
};

/// Elements that a kernel writes.
struct Out {
  void* data = nullptr;
  DType dtype = DType::f32;
  Out at(std::int64_t element) const {
    return {static_cast<std::byte*>(data) + element * static_cast<std::int64_t>(size_of(dtype)), dtype};
  }
};

/// The order in which a kernel visits up to four operands that broadcast to one shape: `runs` runs of `length`
/// elements. Within a run, operand i moves by steps[i] elements (1 or 0). Run r begins at the sum over d of r's
/// coordinate d times strides[d][i]. The coordinates count through extents[0 … outer), dimension 0 fastest. The last
/// operand is the result.
struct Walk {
  static constexpr int kMaxOperands = 4, kMaxRank = 8;
  std::int64_t runs = 0, length = 0;                  ///< number of runs; elements of a run
  int outer = 0;                                      ///< number of dimensions that a run does not cover
  std::int64_t extents[kMaxRank] = {};                ///< extents of these dimensions, the innermost first
  std::int64_t strides[kMaxRank][kMaxOperands] = {};  ///< elements of each operand per step of a dimension
  std::int64_t steps[kMaxOperands] = {};              ///< elements of each operand per step within a run: 1 or 0
};

/// The Params of an op, as bytes.
struct OpParams {
  alignas(8) unsigned char bytes[24] = {};

  OpParams() = default;
  template <class Params>
  explicit OpParams(const Params& p) {
    static_assert(sizeof p <= sizeof bytes && std::is_trivially_copyable_v<Params>);
    std::memcpy(bytes, &p, sizeof p);
  }
  /// Returns the Params that the bytes were copied from.
  template <class Params>
  Params as() const {
    Params p;
    std::memcpy(&p, bytes, sizeof p);
    return p;
  }
};

/// A unary op, or its derivative times gy.
struct UnaryArgs {
  int op = 0;  ///< position in ops::UnaryOps, or of a rare op in ops::RareUnaryOps
  bool backward = false;
  Walk walk{};
  In in[2]{};  ///< forward: x; backward: the tensor that the op saved (gy if it saves none), and gy
  Out out{};
  OpParams params{};
};

/// A binary op, or the gradient of one of its inputs.
struct BinaryArgs {
  int op = 0;         ///< position in ops::BinaryOps, or of a rare op in ops::RareBinaryOps
  int direction = 0;  ///< 0: forward; 1, 2: gradient of the first or second input, in the result's shape
  Walk walk{};
  In in[3]{};  ///< a, b, gy
  Out out{};
  OpParams params{};
};

/// An op of whole numbers, bits, comparisons or truth values (core/ops/exact.h).
struct ExactArgs {
  int op = 0;          ///< position in ops::ExactOps
  bool whole = false;  ///< true: computed in i64, no operand is floating; false: in double, and the result is bool
  Walk walk{};
  In in[2]{};  ///< a, b; a twice if the op has one operand
  Out out{};   ///< i64, i32, u8 or bool
};

/// out = condition ? a : b
struct WhereArgs {
  Walk walk{};
  In in[3]{};  ///< condition (one byte per element), a, b
  Out out{};
};

}  // namespace binade
