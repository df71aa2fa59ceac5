#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/ops/extent2.h"
#include "binade/core/ops/extent3.h"
#include "tests/fuzz/draws.h"

namespace binade::fuzz {

/// Draws the arguments of one call. Most arguments fit together, so that the call passes the op's first check. A
/// method's parameters describe a valid argument. Sometimes the method returns a different one: with another extent,
/// rank or dtype, a negative, zero or overflowing number, NaN, no elements, channel slices, the memory of another
/// argument, or undefined.
class Arguments {
 public:
  explicit Arguments(Draws& draws);

  /// Extents that the arguments of this call share: images (n, h, w, c), k output channels, filters (r, s), sequences
  /// (b, t, d), i heads.
  std::int64_t n, h, w, c, k, r, s, b, t, d, i;

  /// A tensor of this call's floating dtype. Half of them require a gradient.
  Variable tensor(std::vector<std::int64_t> extents);
  Variable images() { return tensor({n, h, w, c}); }
  /// As tensor(), but f32 (f64 in a call of f64), as parameters are; undefined in a third of the calls.
  Variable parameter(std::vector<std::int64_t> extents);
  /// A tensor of any shape with few elements.
  Variable any();
  /// Integers in [0, limit), as i64 or i32. Sometimes some are out of range.
  Variable indices(std::vector<std::int64_t> extents, std::int64_t limit);
  /// A u8 or bool tensor of 0 and 1.
  Variable mask(std::vector<std::int64_t> extents);

  std::int64_t number(std::int64_t good);
  Extent2 extent(std::int64_t good) { return {number(good), number(good)}; }
  Extent3 extent3(std::int64_t good) {
    const Extent2 plane = extent(good);
    return {number(good), plane.y, plane.x};
  }
  int axis(int rank);
  double real(double good);
  bool flag() { return draws_.one_in(2); }
  DType dtype();
  Draws& draws() { return draws_; }

  /// Every defined variable returned so far, in order.
  const std::vector<Variable>& given() const { return given_; }

 private:
  bool hostile(std::size_t one_in) { return draws_.one_in(one_in); }
  std::vector<std::int64_t> bent(std::vector<std::int64_t> extents);
  Tensor made(const std::vector<std::int64_t>& extents, DType dtype);
  Variable handed(Tensor value);
  double value();

  Draws& draws_;
  DType dtype_;
  std::vector<Variable> given_;
};

}  // namespace binade::fuzz
