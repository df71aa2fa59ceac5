#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/ops/extent2.h"
#include "tests/fuzz/draws.h"

namespace binade::fuzz {

/// The arguments of one call, most of which fit each other, so that what lies behind the first check is reached. What a
/// call says is what would be right; now and then it gets something else: another extent, rank or dtype, a negative,
/// zero or overflowing number, NaN, an empty tensor, a channel slice, the same storage again, or nothing.
class Arguments {
 public:
  explicit Arguments(Draws& draws);

  /// Extents of this call that several arguments share: images (n, h, w, c), k out-channels, kernels of (r, s), rows
  /// of (b, t, d), i heads.
  std::int64_t n, h, w, c, k, r, s, b, t, d, i;

  /// Floating values of this call's dtype; a variable that may want a gradient.
  Variable tensor(std::vector<std::int64_t> extents);
  Variable images() { return tensor({n, h, w, c}); }
  /// The same in f32 whatever the call's dtype is, as parameters are; undefined in a third of the calls.
  Variable parameter(std::vector<std::int64_t> extents);
  /// Any shape of few elements.
  Variable any();
  /// Whole numbers in [0, limit), i64 or i32; now and then outside.
  Variable indices(std::vector<std::int64_t> extents, std::int64_t limit);
  /// u8 or bool, 0 and 1.
  Variable mask(std::vector<std::int64_t> extents);

  std::int64_t number(std::int64_t good);
  Extent2 extent(std::int64_t good) { return {number(good), number(good)}; }
  int axis(int rank);
  double real(double good);
  bool flag() { return draws_.one_in(2); }
  DType dtype();
  Draws& draws() { return draws_; }

  /// Every defined variable that was handed out, in order.
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
