#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/ops/extent2.h"
#include "binade/core/ops/extent3.h"
#include "tests/fuzz/draws.h"

namespace binade::fuzz {

/// Draws the arguments of one call. Most fit each other, so that the code after the first check is reached too. The
/// parameters of a method say what would be valid; sometimes it returns something else: another extent, rank or dtype,
/// a negative, zero or overflowing number, NaN, an empty tensor, a channel slice, storage of another argument, or
/// nothing.
class Arguments {
 public:
  explicit Arguments(Draws& draws);

  /// Extents that the arguments of this call share: images (n, h, w, c), k output channels, filters (r, s), sequences
  /// (b, t, d), i heads.
  std::int64_t n, h, w, c, k, r, s, b, t, d, i;

  /// Floating values of this call's dtype; half of the variables require a gradient.
  Variable tensor(std::vector<std::int64_t> extents);
  Variable images() { return tensor({n, h, w, c}); }
  /// As tensor(), but f32 (f64 in a call of f64), as parameters are; undefined in a third of the calls.
  Variable parameter(std::vector<std::int64_t> extents);
  /// A tensor of any shape with few elements.
  Variable any();
  /// Integers in [0, limit), i64 or i32; sometimes outside.
  Variable indices(std::vector<std::int64_t> extents, std::int64_t limit);
  /// u8 or bool, 0 and 1.
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
