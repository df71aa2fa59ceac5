#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "binade/autograd/functions.h"
#include "binade/core/make.h"
#include "tests/tested_device.h"

/// Integers, bools, comparisons and promotion, compared with arithmetic of C++.
namespace binade::conformance {
namespace {

using Whole = std::int64_t;
constexpr DType kWholeTypes[] = {DType::i64, DType::i32, DType::u8, DType::boolean};

/// Test values of a dtype: its limits, 0, and small numbers.
std::vector<Whole> numbers_of(DType dtype) {
  switch (dtype) {
    case DType::boolean: return {0, 1};
    case DType::u8: return {0, 1, 2, 3, 7, 100, 128, 254, 255};
    case DType::i32:
      return {0,
              1,
              -1,
              2,
              -2,
              3,
              -3,
              7,
              -7,
              16,
              33,
              123456789,
              std::numeric_limits<std::int32_t>::min(),
              std::numeric_limits<std::int32_t>::max()};
    default:
      return {0,
              1,
              -1,
              2,
              -3,
              7,
              -7,
              63,
              64,
              (Whole{1} << 53) + 1,
              -(Whole{1} << 53) - 1,
              std::numeric_limits<Whole>::min(),
              std::numeric_limits<Whole>::max()};
  }
}
Tensor tensor_of(const std::vector<Whole>& values, Shape shape, DType dtype) {
  return Tensor::from(values, shape).to(dtype).to(tested_device());
}
/// An integer converted to a dtype, with wraparound.
Whole stored(Whole x, DType dtype) {
  switch (dtype) {
    case DType::boolean: return x != 0;
    case DType::u8: return static_cast<std::uint8_t>(x);
    case DType::i32: return static_cast<std::int32_t>(x);
    default: return x;
  }
}
Whole wrapped(__int128 x) { return static_cast<Whole>(static_cast<unsigned __int128>(x)); }

/// Calls `f` for all pairs of numbers of all pairs of dtypes and compares with `expected` in the wider dtype, or in
/// bool.
void check_pairs(const std::string& name, const std::function<Variable(const Variable&, const Variable&)>& f,
                 const std::function<Whole(Whole, Whole)>& expected, bool gives_bool, bool skips_zero = false,
                 bool takes_bool = true) {
  for (const DType ta : kWholeTypes)
    for (const DType tb : kWholeTypes) {
      const DType result = promoted(ta, tb);
      if (!takes_bool && result == DType::boolean) {
        EXPECT_THROW(f(tensor_of({1}, {1}, ta), tensor_of({1}, {1}, tb)), DTypeError) << name;
        continue;
      }
      const std::vector<Whole> as = numbers_of(ta);
      std::vector<Whole> bs;
      for (const Whole b : numbers_of(tb))
        if (b != 0 || !skips_zero) bs.push_back(b);
      const auto rows = static_cast<Whole>(as.size()), columns = static_cast<Whole>(bs.size());
      const Variable y = f(tensor_of(as, {rows, 1}, ta), tensor_of(bs, {columns}, tb));
      ASSERT_EQ(y.dtype(), gives_bool ? DType::boolean : result) << name;
      ASSERT_EQ(y.shape(), (Shape{rows, columns}));
      const std::vector<Whole> got = y.value().to_vector<Whole>();
      for (std::size_t i = 0; i < as.size(); ++i)
        for (std::size_t j = 0; j < bs.size(); ++j)
          ASSERT_EQ(got[i * bs.size() + j], stored(expected(as[i], bs[j]), y.dtype()))
              << name << " of " << as[i] << " and " << bs[j] << ", " << name_of(ta) << " and " << name_of(tb);
    }
}

TEST(WholeNumbers, FloatingNumbersAreCutToTheNearestOfTheRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::vector<double> from = {2.9, -2.9, -0.5, nan, inf, -inf, 0x1p63, -0x1p63, 0x1p31, 300, -300};
  const auto cut = [&](double x, DType to) -> Whole {
    if (std::isnan(x)) return 0;
    const auto limits = [&]() -> std::pair<Whole, Whole> {
      if (to == DType::u8) return {0, 255};
      if (to == DType::i32) return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
      return {std::numeric_limits<Whole>::min(), std::numeric_limits<Whole>::max()};
    }();
    if (x >= 0x1p63) return limits.second;
    return std::clamp(x <= -0x1p63 ? limits.first : static_cast<Whole>(x), limits.first, limits.second);
  };
  const Shape shape{static_cast<Whole>(from.size())};
  for (const DType in : {DType::f64, DType::f32})
    for (const DType to : {DType::i64, DType::i32, DType::u8}) {
      const std::vector<Whole> got =
          Tensor::from(from, shape).to(in).to(tested_device()).to(to).on_host().to_vector<Whole>();
      for (std::size_t i = 0; i < from.size(); ++i) {
        EXPECT_EQ(got[i], cut(from[i], to)) << from[i] << " from " << name_of(in) << " to " << name_of(to);
        EXPECT_EQ(Tensor::full({1}, from[i], to, tested_device()).on_host().to_vector<Whole>()[0], cut(from[i], to));
      }
    }
}

TEST(WholeNumbers, AreConvertedWithOneRounding) {
  const auto converted = [](Whole x, DType from, DType to) { return tensor_of({x}, {1}, from).to(to).on_host(); };
  for (const Whole x : {(Whole{1} << 53) - 1, Whole{123456789}, Whole{16777217}})
    for (const Whole signed_x : {x, -x}) {
      EXPECT_EQ(converted(signed_x, DType::i64, DType::f64).item(), static_cast<double>(signed_x));
      const Whole low = stored(signed_x, DType::i32);
      EXPECT_EQ(converted(low, DType::i32, DType::f64).item(), static_cast<double>(low));
    }
  for (const Whole x : numbers_of(DType::i64)) {
    for (const DType to : {DType::i32, DType::u8, DType::boolean})
      EXPECT_EQ(converted(x, DType::i64, to).to_vector<Whole>()[0], stored(x, to)) << x << " to " << name_of(to);
    EXPECT_EQ(converted(stored(x, DType::i32), DType::i32, DType::i64).to_vector<Whole>()[0], stored(x, DType::i32));
  }
  // Ties of bf16 and f32, and numbers just above ties, which rounding to f32 or f64 first would change to ties.
  const Whole one = 1;
  const std::pair<Whole, double> to_bf16[] = {{(one << 40) + (one << 32), 0x1p40},
                                              {(one << 40) + (one << 32) + 1, 0x1p40 + 0x1p33},
                                              {(one << 62) + (one << 54), 0x1p62},
                                              {(one << 62) + (one << 54) + 1, 0x1p62 + 0x1p55},
                                              {(one << 40) + (one << 32) - 1, 0x1p40},
                                              {std::numeric_limits<Whole>::max(), 0x1p63},
                                              {(one << 53) + (one << 45) + 1, 0x1p53 + 0x1p46}};
  for (const auto& [x, expected] : to_bf16)
    for (const Whole sign : {1, -1})
      EXPECT_EQ(converted(sign * x, DType::i64, DType::bf16).item(), static_cast<double>(sign) * expected) << x;
  EXPECT_EQ(converted((one << 54) + (one << 30) + 1, DType::i64, DType::f32).item(), 0x1p54 + 0x1p31);
  EXPECT_EQ(converted((one << 24) + (one << 16) + 1, DType::i32, DType::bf16).item(), 0x1p24 + 0x1p17);
  EXPECT_EQ(converted(65519, DType::i64, DType::f16).item(), 65504);
  EXPECT_EQ(converted(65520, DType::i64, DType::f16).item(), HUGE_VAL);
}

TEST(WholeNumbers, SumsDifferencesAndProductsWrapAround) {
  check_pairs(
      "add", std::plus<>{}, [](__int128 a, __int128 b) { return wrapped(a + b); }, false);
  check_pairs(
      "sub", std::minus<>{}, [](__int128 a, __int128 b) { return wrapped(a - b); }, false, false, false);
  check_pairs(
      "mul", std::multiplies<>{}, [](__int128 a, __int128 b) { return wrapped(a * b); }, false);
}

TEST(WholeNumbers, DivisionIsThatOfPythonAndOfC) {
  const auto floored = [](__int128 a, __int128 b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); };
  check_pairs(
      "floor_divide", [](const Variable& a, const Variable& b) { return floor_divide(a, b); },
      [&](__int128 a, __int128 b) { return wrapped(floored(a, b)); }, false, true);
  check_pairs(
      "remainder", [](const Variable& a, const Variable& b) { return remainder(a, b); },
      [&](__int128 a, __int128 b) { return wrapped(a - floored(a, b) * b); }, false, true);
  check_pairs(
      "fmod", [](const Variable& a, const Variable& b) { return fmod(a, b); },
      [](__int128 a, __int128 b) { return wrapped(a % b); }, false, true);
  const Tensor x = tensor_of({6, 7}, {2}, DType::i32), zero = tensor_of({2, 0}, {2}, DType::i32);
  EXPECT_THROW(floor_divide(x, zero), ArgumentError);
  EXPECT_THROW(remainder(x, zero), ArgumentError);
  EXPECT_THROW(fmod(x, zero), ArgumentError);
  const Variable quotient = x / zero;  // torch's true division
  EXPECT_EQ(quotient.dtype(), DType::f32);
  EXPECT_EQ(quotient.value().to_vector<double>(), (std::vector<double>{3, HUGE_VAL}));
}

TEST(WholeNumbers, DivisionByAWholeNumberKeepsTheDtype) {
  const Tensor x = tensor_of({7, -7, 6, 0}, {4}, DType::i64);
  EXPECT_EQ(floor_divide(x, 3).dtype(), DType::i64);
  EXPECT_EQ(floor_divide(x, 3).value().to_vector<Whole>(), (std::vector<Whole>{2, -3, 2, 0}));
  EXPECT_EQ(remainder(x, 3).value().to_vector<Whole>(), (std::vector<Whole>{1, 2, 0, 0}));
  EXPECT_EQ(fmod(x, std::int64_t{3}).value().to_vector<Whole>(), (std::vector<Whole>{1, -1, 0, 0}));
  EXPECT_EQ(remainder(tensor_of({7, 8}, {2}, DType::u8), 4).dtype(), DType::u8);
  EXPECT_EQ(remainder(x, 2.5).dtype(), DType::f32);
  EXPECT_EQ(remainder(x, 2.5).value().to_vector<double>(), (std::vector<double>{2, 0.5, 1, 0}));
  EXPECT_THROW(remainder(x, 0), ArgumentError);
  const Tensor mask = tensor_of({1, 0, 0, 1}, {4}, DType::boolean);
  EXPECT_EQ(where(mask, x, 5).dtype(), DType::i64);
  EXPECT_EQ(where(mask, x, 5).value().to_vector<Whole>(), (std::vector<Whole>{7, 5, 5, 0}));
  EXPECT_EQ(where(mask, -1, x).value().to_vector<Whole>(), (std::vector<Whole>{-1, -7, 6, -1}));
  const Whole large = (Whole{1} << 62) + 1;  // beyond what a double holds
  EXPECT_EQ(where(mask, large, x).value().to_vector<Whole>(), (std::vector<Whole>{large, -7, 6, large}));
}

TEST(FloatingDivision, ByANumberKeepsTheDtypeAndHasAGradient) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const Variable x(Tensor::from(std::vector<double>{7, -7, 0.5}, {3}).to(dtype).to(tested_device()), true);
    EXPECT_EQ(remainder(x, 3).dtype(), dtype);
    EXPECT_EQ(remainder(x, 3).value().to_vector<double>(), (std::vector<double>{1, 2, 0.5}));
    EXPECT_EQ(floor_divide(x, 3).value().to_vector<double>(), (std::vector<double>{2, -3, 0}));
    EXPECT_EQ(fmod(x, 1.5).value().to_vector<double>(), (std::vector<double>{1, -1, 0.5}));
    const Variable kept = where(x > 0, x, 0.25);
    EXPECT_EQ(kept.dtype(), dtype);
    EXPECT_EQ(kept.value().to_vector<double>(), (std::vector<double>{7, 0.25, 0.5}));
    backward(sum(kept));
    EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 0, 1}));
  }
}

TEST(WholeNumbers, ExtremaAndBits) {
  check_pairs(
      "maximum", maximum, [](Whole a, Whole b) { return std::max(a, b); }, false);
  check_pairs(
      "minimum", minimum, [](Whole a, Whole b) { return std::min(a, b); }, false);
  check_pairs(
      "and", bitwise_and, [](Whole a, Whole b) { return a & b; }, false);
  check_pairs(
      "or", bitwise_or, [](Whole a, Whole b) { return a | b; }, false);
  check_pairs(
      "xor", bitwise_xor, [](Whole a, Whole b) { return a ^ b; }, false);
  check_pairs(
      "left", bitwise_left_shift,
      [](Whole a, Whole b) { return b < 0 || b > 63 ? 0 : wrapped(static_cast<__int128>(a) << b); }, false, false,
      false);
  check_pairs(
      "right", bitwise_right_shift, [](Whole a, Whole b) { return b < 0 || b > 63 ? (a < 0 ? -1 : 0) : a >> b; }, false,
      false, false);
}

TEST(WholeNumbers, ComparisonsAndLogicAreExact) {
  check_pairs("eq", eq, std::equal_to<Whole>{}, true);
  check_pairs("ne", ne, std::not_equal_to<Whole>{}, true);
  check_pairs("lt", lt, std::less<Whole>{}, true);
  check_pairs("le", le, std::less_equal<Whole>{}, true);
  check_pairs("gt", gt, std::greater<Whole>{}, true);
  check_pairs("ge", ge, std::greater_equal<Whole>{}, true);
  check_pairs(
      "and", logical_and, [](Whole a, Whole b) { return a != 0 && b != 0; }, true);
  check_pairs(
      "or", logical_or, [](Whole a, Whole b) { return a != 0 || b != 0; }, true);
  check_pairs(
      "xor", logical_xor, [](Whole a, Whole b) { return (a != 0) != (b != 0); }, true);
}

TEST(WholeNumbers, FunctionsOfOneNumber) {
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    const std::vector<Whole> xs = numbers_of(dtype);
    const Variable x = tensor_of(xs, {static_cast<Whole>(xs.size())}, dtype);
    const auto check = [&](const Variable& y, const std::function<Whole(Whole)>& expected) {
      ASSERT_EQ(y.dtype(), dtype);
      const std::vector<Whole> got = y.value().to_vector<Whole>();
      for (std::size_t i = 0; i < xs.size(); ++i) EXPECT_EQ(got[i], stored(expected(xs[i]), dtype)) << xs[i];
    };
    check(-x, [](__int128 a) { return wrapped(-a); });
    check(abs(x), [](__int128 a) { return wrapped(a < 0 ? -a : a); });
    check(sign(x), [](Whole a) { return (a > 0) - (a < 0); });
    check(relu(x), [](Whole a) { return std::max<Whole>(a, 0); });
    check(square(x), [](__int128 a) { return wrapped(a * a); });
    check(~x, [](Whole a) { return ~a; });
    check(floor(x), [](Whole a) { return a; });
    check(clamp(x, -1.5, 2.5), [](Whole a) { return std::clamp<Whole>(a, -1, 2); });
    EXPECT_EQ(exp(x).dtype(), DType::f32);
  }
  EXPECT_THROW(-Variable(tensor_of({1}, {1}, DType::boolean)), DTypeError);
  const Variable truths = ~Variable(tensor_of({1, 0}, {2}, DType::boolean));
  EXPECT_EQ(truths.dtype(), DType::boolean);
  EXPECT_EQ(truths.value().to_vector<Whole>(), (std::vector<Whole>{0, 1}));
  EXPECT_THROW(bitwise_and(tensor_of({1}, {1}, DType::i32), Tensor::zeros({1}).to(tested_device())), DTypeError);
}

TEST(WholeNumbers, WhereSelectsExactly) {
  const Variable condition = tensor_of({1, 0}, {2}, DType::boolean);
  const Whole far = std::numeric_limits<Whole>::min();
  EXPECT_EQ(where(condition, tensor_of({far, 1}, {2}, DType::i64), tensor_of({5, far}, {2}, DType::i64))
                .value()
                .to_vector<Whole>(),
            (std::vector<Whole>{far, far}));
  EXPECT_EQ(where(condition, tensor_of({0, 1}, {2}, DType::boolean), tensor_of({0, 1}, {2}, DType::boolean)).dtype(),
            DType::boolean);
  EXPECT_EQ(where(condition, tensor_of({200, 1}, {2}, DType::u8), tensor_of({3, 250}, {2}, DType::u8))
                .value()
                .to_vector<Whole>(),
            (std::vector<Whole>{200, 250}));
}

TEST(WholeNumbers, ScalarsFollowTorchsRule) {
  const Variable x = tensor_of({1, 2, 250}, {3}, DType::u8);
  EXPECT_EQ((x + 10).value().to_vector<Whole>(), (std::vector<Whole>{11, 12, 4}));
  EXPECT_EQ((x + 10).dtype(), DType::u8);
  EXPECT_EQ((3 - x).dtype(), DType::u8);
  EXPECT_EQ((x * 2.5).dtype(), DType::f32);
  EXPECT_EQ((x * 2.5).value().to_vector<double>(), (std::vector<double>{2.5, 5, 625}));
  EXPECT_EQ((x / 2).value().to_vector<double>(), (std::vector<double>{0.5, 1, 125}));
  EXPECT_EQ(((x == 1) + 1).dtype(), DType::i64);
  EXPECT_EQ((x < 300).value().to_vector<Whole>(), (std::vector<Whole>{1, 1, 1}));
  EXPECT_EQ((x > 1.5).value().to_vector<Whole>(), (std::vector<Whole>{0, 1, 1}));
  EXPECT_EQ((2 >= x).value().to_vector<Whole>(), (std::vector<Whole>{1, 1, 0}));
  const Variable f = Tensor::from({0.1f, 0.5f}).to(tested_device());
  EXPECT_EQ((f == 0.1).value().to_vector<Whole>(), (std::vector<Whole>{1, 0})) << "a number is rounded to f32 first";
}

TEST(Promotion, TakesTheLaterOfTwoDTypes) {
  const DType order[] = {DType::boolean, DType::u8, DType::i32, DType::i64, DType::f16, DType::f32, DType::f64};
  for (std::size_t i = 0; i < std::size(order); ++i)
    for (std::size_t j = 0; j < std::size(order); ++j) {
      EXPECT_EQ(promoted(order[i], order[j]), order[std::max(i, j)]);
      const auto ones = [](DType dtype) { return Variable(Tensor::full({2}, 1, dtype, tested_device())); };
      EXPECT_EQ((ones(order[i]) * ones(order[j])).dtype(), order[std::max(i, j)]);
    }
  EXPECT_EQ(promoted(DType::f16, DType::bf16), DType::f32);
  EXPECT_EQ(promoted(DType::bf16, DType::i64), DType::bf16);
}

TEST(Promotion, WholeNumbersBesideFloatingOnesHaveNoGradient) {
  const Variable x(Tensor::from({1.5f, 2.5f}).to(tested_device()), true);
  const Variable n = tensor_of({3, 4}, {2}, DType::i64);
  const Variable y = n * x + n;
  EXPECT_EQ(y.dtype(), DType::f32);
  backward(sum(y));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{3, 4}));
}

TEST(Comparisons, FollowIeeeForNanAndInfinity) {
  const double nan = std::nan(""), infinity = HUGE_VAL;
  const std::vector<double> xs{nan, -infinity, -1, -0.0, 0, 1, infinity};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const Variable a = Tensor::from(xs, {7, 1}).to(dtype).to(tested_device());
    const Variable b = Tensor::from(xs, {7}).to(dtype).to(tested_device());
    const auto check = [&](const Variable& y, auto expected) {
      const std::vector<Whole> got = y.value().to_vector<Whole>();
      for (std::size_t i = 0; i < 7; ++i)
        for (std::size_t j = 0; j < 7; ++j) EXPECT_EQ(got[7 * i + j], expected(xs[i], xs[j])) << xs[i] << ", " << xs[j];
    };
    check(a == b, std::equal_to<double>{});
    check(a != b, std::not_equal_to<double>{});
    check(a < b, std::less<double>{});
    check(a <= b, std::less_equal<double>{});
    check(a > b, std::greater<double>{});
    check(a >= b, std::greater_equal<double>{});
    EXPECT_EQ(isnan(b).value().to_vector<Whole>(), (std::vector<Whole>{1, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(isinf(b).value().to_vector<Whole>(), (std::vector<Whole>{0, 1, 0, 0, 0, 0, 1}));
    EXPECT_EQ(isfinite(b).value().to_vector<Whole>(), (std::vector<Whole>{0, 0, 1, 1, 1, 1, 0}));
    EXPECT_EQ(logical_not(b).value().to_vector<Whole>(), (std::vector<Whole>{0, 0, 0, 1, 1, 0, 0}));
  }
}

TEST(FloatingDivision, HasTheSignsOfPythonAndOfC) {
  const std::vector<double> as{7, -7, 7, -7, 0, 6, -6, 5.5}, bs{3, 3, -3, -3, 3, -3, 3, HUGE_VAL};
  const Variable a = Tensor::from(as, {8}).to(tested_device()), b = Tensor::from(bs, {8}).to(tested_device());
  EXPECT_EQ(remainder(a, b).value().to_vector<double>(), (std::vector<double>{1, 2, -2, -1, 0, 0, 0, 5.5}));
  EXPECT_EQ(floor_divide(a, b).value().to_vector<double>(), (std::vector<double>{2, -3, -3, 2, 0, -2, -2, 0}));
  EXPECT_EQ(fmod(a, b).value().to_vector<double>(), (std::vector<double>{1, -1, 1, -1, 0, 0, 0, 5.5}));
}

}  // namespace
}  // namespace binade::conformance
