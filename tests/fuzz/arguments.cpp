#include "tests/fuzz/arguments.h"

#include <cmath>
#include <limits>

namespace binade::fuzz {
namespace {

constexpr std::int64_t kMostElements = 1 << 14;

std::int64_t small(Draws& draws) {
  constexpr std::int64_t kTileEdges[] = {7, 8, 9, 15, 16, 17, 31, 32, 33};
  if (draws.one_in(30)) return 0;
  if (draws.one_in(8)) return draws.pick(kTileEdges);
  return static_cast<std::int64_t>(1 + draws.below(5));
}

}  // namespace

Arguments::Arguments(Draws& draws)
    : n(static_cast<std::int64_t>(draws.below(3))),
      h(small(draws)),
      w(small(draws)),
      c(small(draws)),
      k(small(draws)),
      r(static_cast<std::int64_t>(1 + draws.below(3))),
      s(static_cast<std::int64_t>(1 + draws.below(3))),
      b(static_cast<std::int64_t>(draws.below(4))),
      t(small(draws)),
      d(small(draws)),
      i(static_cast<std::int64_t>(1 + draws.below(3))),
      draws_(draws) {
  constexpr DType kFloats[] = {DType::f32, DType::f32, DType::f16, DType::bf16, DType::f64};
  dtype_ = draws.pick(kFloats);
}

std::vector<std::int64_t> Arguments::bent(std::vector<std::int64_t> extents) {
  if (!hostile(7)) return extents;
  const std::size_t at = draws_.below(extents.size());
  switch (draws_.below(6)) {
    case 0:
      if (!extents.empty()) extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::int64_t>(draws_.below(4)));
      break;
    case 2:
      if (!extents.empty()) extents[at] = 0;
      break;
    case 3:
      if (!extents.empty()) extents[at] += static_cast<std::int64_t>(draws_.below(3)) - 1;
      break;
    case 4:
      if (!extents.empty()) extents[at] = 1;
      break;
    default: extents.assign(draws_.below(9), 1);
  }
  for (std::int64_t& e : extents) e = e < 0 ? 0 : e;
  return extents;
}

double Arguments::value() {
  if (!hostile(40)) return static_cast<double>(draws_.below(4001)) / 1000 - 2;
  constexpr double kValues[] = {0,
                                -0.0,
                                1e-40,
                                -1e30,
                                65504,
                                65520,
                                3.5e38,
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
  return draws_.pick(kValues);
}

Tensor Arguments::made(const std::vector<std::int64_t>& extents, DType dtype) {
  Shape shape{std::span<const std::int64_t>(extents)};
  if (shape.numel() == 0 && hostile(3)) {  // a tensor without elements may have any number of rows
    constexpr std::int64_t kHuge[] = {1ll << 20, 1ll << 31, 1ll << 40, 1ll << 55};
    const int axis = static_cast<int>(draws_.below(static_cast<std::size_t>(shape.rank())));
    if (shape[axis] > 0) shape = shape.with_dim(axis, draws_.pick(kHuge));
  }
  if (shape.numel() > kMostElements) shape = Shape{static_cast<std::int64_t>(1 + draws_.below(5))};
  const bool slice = shape.numel() > 0 && shape.rank() > 0 && hostile(5);
  const std::int64_t before = slice ? static_cast<std::int64_t>(draws_.below(4)) : 0,
                     after = slice ? static_cast<std::int64_t>(draws_.below(4)) : 0;
  const Shape whole = slice ? shape.with_dim(-1, shape.cols() + before + after) : shape;
  std::vector<double> values(static_cast<std::size_t>(whole.numel()));
  for (double& x : values) x = is_floating(dtype) ? value() : static_cast<double>(draws_.below(2));
  const Tensor values_there = Tensor::from(values, whole).to(dtype);
  return slice ? values_there.channel_slice(before, shape.cols()) : values_there;
}

Variable Arguments::handed(Tensor value) {
  Variable v(std::move(value));
  if (is_floating(v.dtype()) && draws_.one_in(2)) v = Variable(v.value(), true);
  given_.push_back(v);
  return v;
}

Variable Arguments::tensor(std::vector<std::int64_t> extents) {
  if (hostile(60)) return {};
  if (!given_.empty() && hostile(12)) return draws_.pick(given_);
  if (!given_.empty() && hostile(20)) {  // a tensor that shares memory with another
    const Tensor& other = draws_.pick(given_).value();
    if (other.rank() > 0 && other.dim(0) > 1 && (other.rank() > 1 || other.contiguous()))
      return handed(other.narrow(draws_.one_in(2) ? 1 : 0, other.dim(0) - 1));
  }
  return handed(made(bent(std::move(extents)), hostile(20) ? dtype() : dtype_));
}

Variable Arguments::parameter(std::vector<std::int64_t> extents) {
  if (draws_.one_in(3)) return {};
  const DType usual = dtype_ == DType::f64 ? DType::f64 : DType::f32;
  return handed(made(bent(std::move(extents)), hostile(15) ? dtype() : usual));
}

Variable Arguments::any() {
  std::vector<std::int64_t> extents;
  for (std::size_t rank = draws_.below(hostile(10) ? 9 : 5); rank > 0; --rank)
    extents.push_back(static_cast<std::int64_t>(draws_.below(6)));
  return tensor(extents);
}

Variable Arguments::indices(std::vector<std::int64_t> extents, std::int64_t limit) {
  extents = bent(std::move(extents));
  Shape shape{std::span<const std::int64_t>(extents)};
  if (shape.numel() > kMostElements) shape = Shape{1};
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.numel()));
  for (std::int64_t& x : values)
    x = hostile(200) ? number(0)
                     : static_cast<std::int64_t>(draws_.below(static_cast<std::size_t>(limit < 1 ? 1 : limit)));
  constexpr DType kKinds[] = {DType::i64, DType::i64, DType::i32, DType::i32, DType::u8, DType::f32};
  const Tensor whole = Tensor::from(values, shape);
  return handed(hostile(4) ? whole.to(draws_.pick(kKinds)) : whole);
}

Variable Arguments::mask(std::vector<std::int64_t> extents) {
  return handed(made(bent(std::move(extents)), draws_.one_in(2) ? DType::u8 : DType::boolean));
}

std::int64_t Arguments::number(std::int64_t good) {
  if (!hostile(12)) return good;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kNumbers[] = {0,          -1,         -2,         3,          5,
                                       64,         1000,       2147483647, 2147483648, -2147483648,
                                       4294967295, 4294967296, 1ll << 40,  1ll << 59,  1ll << 61,
                                       1ll << 62,  kMost - 1,  kMost,      -kMost,     -kMost - 1};
  return hostile(3) ? good + static_cast<std::int64_t>(draws_.below(3)) - 1 : draws_.pick(kNumbers);
}

int Arguments::axis(int rank) {
  constexpr int kAxes[] = {-1, 0, 1, -9, 8, 100, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
  return hostile(8) ? draws_.pick(kAxes)
                    : static_cast<int>(draws_.below(static_cast<std::size_t>(rank < 1 ? 1 : rank)));
}

double Arguments::real(double good) {
  constexpr double kReals[] = {0,
                               -0.0,
                               -1,
                               1,
                               2,
                               0.5,
                               1e-320,
                               1e-12,
                               1e30,
                               1e300,
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()};
  return hostile(6) ? draws_.pick(kReals) : good;
}

DType Arguments::dtype() {
  constexpr DType kAll[] = {DType::f32, DType::f16, DType::bf16, DType::f64,
                            DType::i64, DType::i32, DType::u8,   DType::boolean};
  return draws_.pick(kAll);
}

}  // namespace binade::fuzz
