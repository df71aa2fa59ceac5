#pragma once

#include <cstddef>
#include <cstdint>

#include "binade/core/host_device.h"
#include "binade/core/kernels/elementwise.h"

/// Arguments of kernels that read or write at positions from an index tensor.
namespace binade {

/// An index tensor seen as (outer, count, inner), and the tensor whose axis it indexes. Index element (o, j, i) refers
/// to element base(o, i) + index * step of that tensor. `by_row`: the index has one element for each j only.
struct IndexGrid {
  static constexpr int kMaxRank = 8;
  std::int64_t outer = 1, count = 0, inner = 1;
  std::int64_t extent = 0, step = 1;  ///< of the indexed axis; step: elements between its positions
  const std::int64_t* index = nullptr;
  bool by_row = false;
  std::uint64_t call = 0;  ///< identifies the call in the report of an index out of range (core/faults.h); 0: no report

  /// True if the tensor is larger than the index along other axes. base() then computes an offset from coordinates with
  /// extents `dims` and `strides` in the tensor, outermost first: o has the first `before` of them, i the others.
  bool partial = false;
  int before = 0, rank = 0;
  std::int64_t dims[kMaxRank] = {}, strides[kMaxRank] = {};

  BINADE_HD std::int64_t at(std::int64_t o, std::int64_t j, std::int64_t i) const {
    return by_row ? index[j] : index[(o * count + j) * inner + i];
  }
  BINADE_HD std::int64_t base(std::int64_t o, std::int64_t i) const {
    if (!partial) return o * extent * step + i;
    std::int64_t sum = 0;
    for (int d = rank - 1; d >= before; --d) {
      sum += i % dims[d] * strides[d];
      i /= dims[d];
    }
    for (int d = before - 1; d >= 0; --d) {
      sum += o % dims[d] * strides[d];
      o /= dims[d];
    }
    return sum;
  }
  BINADE_HD bool inside(std::int64_t position) const { return position >= 0 && position < extent; }
  BINADE_HD std::int64_t numel() const { return outer * count * inner; }
  BINADE_HD std::int64_t indices() const { return by_row ? count : numel(); }
};

/// to[o, j, i] = from[base(o, i) + index(o, j, i) * step]: elements of any dtype, copied unchanged.
struct GatherArgs {
  IndexGrid grid{};
  std::size_t element_bytes = 4;
  const void* from = nullptr;
  void* to = nullptr;
};

/// How contributions to one target are combined. Contributions come in the order of j.
enum class Scattering : std::uint8_t { kAssign, kAdd, kMean, kProduct, kLargest, kSmallest };

/// into[target(o, j, i)] is combined with source[o, j, i]. kAssign takes elements of any dtype and the last
/// contribution wins; the others take f32, f64, integers and bools (NaN wins in kLargest and kSmallest).
struct ScatterArgs {
  IndexGrid grid{};
  Scattering how = Scattering::kAssign;
  bool include_self = true;  ///< false: the value that a target has before the first contribution does not count
  DType dtype = DType::f32;
  const void* source = nullptr;
  bool one_source = false;  ///< `source` is one element, the contribution of every index
  void* into = nullptr;
};

/// The gradients of a scatter, f32 or f64. REQUIRES that gx holds a copy of gy.
struct ScatterGradientArgs {
  IndexGrid grid{};
  Scattering how = Scattering::kAssign;
  bool include_self = true;
  DType dtype = DType::f32;
  const void* x = nullptr;       ///< the tensor before the scatter; for products, largest and smallest values
  const void* source = nullptr;  ///< the contributions; for products, largest and smallest values
  const void* y = nullptr;       ///< the result; for largest and smallest values
  const void* gy = nullptr;
  void* gx = nullptr;
  void* gsource = nullptr;
};

/// to[p] = the sum over k of index k at p times strides[k]: one position in a tensor from the indices of its first
/// axes. Indices are i64 and broadcast over `dims`; negative ones count from the end.
struct LinearIndexArgs {
  static constexpr int kMaxRank = 8;
  int indices = 0, rank = 0;
  std::int64_t dims[kMaxRank] = {};
  const std::int64_t* index[kMaxRank] = {};
  std::int64_t index_strides[kMaxRank][kMaxRank] = {};  ///< of index k along dimension d; 0: broadcast
  std::int64_t extents[kMaxRank] = {}, strides[kMaxRank] = {};
  std::int64_t count = 0;
  std::int64_t* to = nullptr;
  std::uint64_t call = 0;  ///< a report's position is p * indices + k
};

/// to[p, d] = coordinate d of the element at row-major position flat[p] of a tensor with extents `dims`.
struct CoordinatesArgs {
  static constexpr int kMaxRank = 8;
  int rank = 0;
  std::int64_t dims[kMaxRank] = {};
  const std::int64_t* flat = nullptr;
  std::int64_t count = 0;
  std::int64_t* to = nullptr;
};

}  // namespace binade
