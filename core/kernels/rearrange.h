#pragma once

#include <cstddef>
#include <cstdint>

#include "binade/core/host_device.h"
#include "binade/core/kernels/elementwise.h"

/// Copies of positions along one axis of a tensor that is seen as (outer, extent, inner).
namespace binade {

/// How a map treats a source position outside of [0, extent).
enum class OutOfRangeRule : std::uint8_t {
  kFill,     ///< -1: no position; the result is a fill value
  kReflect,  ///< mirrored at the first or last position, which is not repeated
  kClamp,    ///< the first or last position
  kWrap,     ///< the position modulo the extent
};

/// Maps position j of the result to the source position begin + j / window * step + j % window * inside. `beyond` says
/// how positions outside of [0, extent) are treated. Flips, rolls, steps, windows, repeats and padding are such maps.
struct AxisMap {
  std::int64_t begin = 0, step = 1, window = 1, inside = 0;
  std::int64_t extent = 0;
  OutOfRangeRule beyond = OutOfRangeRule::kFill;

  /// REQUIRES extent > 0 unless `beyond` is kFill; for kReflect also -extent < position < 2 extent - 1.
  BINADE_HD std::int64_t operator()(std::int64_t j) const {
    const std::int64_t s = window == 1 ? begin + j * step : begin + j / window * step + j % window * inside;
    if (s >= 0 && s < extent) return s;
    switch (beyond) {
      case OutOfRangeRule::kReflect: return s < 0 ? -s : 2 * (extent - 1) - s;
      case OutOfRangeRule::kClamp: return s < 0 ? 0 : extent - 1;
      case OutOfRangeRule::kWrap: return s % extent + (s % extent < 0 ? extent : 0);
      case OutOfRangeRule::kFill: break;
    }
    return -1;
  }
  friend bool operator==(const AxisMap&, const AxisMap&) = default;
};

/// to[o, j, i] = from[o, map(j), i] for j < count, or the fill value. If `push`, to[o, map(j), i] = from[o, j, i] for
/// every j with map(j) >= 0. These positions must be different. Other elements of `to` stay unchanged.
struct RearrangeArgs {
  std::size_t element_bytes = 4;
  std::int64_t outer = 1, count = 0, inner = 1;
  AxisMap map{};
  bool push = false;
  const void* from = nullptr;
  void* to = nullptr;
  std::uint64_t fill = 0;  ///< the bits of the fill value, in the low bytes
};

/// gx[o, s, i] = the sum of gy[o, from[t], i] over t in [begin[s], begin[s + 1]), added in this order, in float (double
/// for f64), and rounded once. The lists are in host memory. gx has `extent` positions, gy has `count`.
struct RearrangeSumArgs {
  std::int64_t outer = 1, extent = 0, count = 0, inner = 1;
  const std::int64_t* begin = nullptr;  ///< extent + 1 numbers
  const std::int64_t* from = nullptr;   ///< begin[extent] numbers
  In gy{};
  Out gx{};
};

}  // namespace binade
