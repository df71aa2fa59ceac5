#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/autograd/functions.h"
#include "binade/autograd/grad.h"
#include "binade/core/make.h"
#include "binade/core/step_context.h"
#include "tests/conformance/composed.h"
#include "tests/error_text.h"
#include "tests/tested_device.h"

// The functions that PyTorch has under the same names. Lists those with gradients, which layer_functions_test.cpp
// tests; tests values, special values, dtypes and errors of all. tests/golden compares them with PyTorch's.
namespace binade::conformance {

std::vector<Composed> named_functions() {
  using In = const std::vector<Variable>&;
  const Shape pair{3, 6};
  return {
      {"lerp", [](In in) { return lerp(in[0], in[1], 0.3); }, {pair, pair}},
      {"lerp_of_weights", [](In in) { return lerp(in[0], in[1], in[2]); }, {pair, pair, pair}},
      {"addcmul", [](In in) { return addcmul(in[0], in[1], in[2], 0.5); }, {pair, pair, pair}},
      {"addcdiv", [](In in) { return addcdiv(in[0], in[1], square(in[2]) + 1.0, 0.5); }, {pair, pair, pair}, false},
      {"fmax", [](In in) { return fmax(in[0] * 0.5, in[1]) + in[0]; }, {pair, pair}},
      {"fmin", [](In in) { return fmin(in[0] * 0.5, in[1]) + in[0]; }, {pair, pair}},
      {"logit", [](In in) { return logit(in[0] * 0.0625 + 0.5); }, {pair}},
      {"mvlgamma", [](In in) { return mvlgamma(in[0] * 0.25 + 2.0, 2); }, {pair}},
      {"deg2rad", [](In in) { return deg2rad(in[0]); }, {pair}},
      {"normalize", [](In in) { return normalize(in[0]); }, {pair}},
      {"softmin", [](In in) { return softmin(in[0], 1); }, {pair}, false},
      {"channel_shuffle", [](In in) { return channel_shuffle(in[0], 3); }, {pair}},
      {"quantile", [](In in) { return quantile(in[0], 0.3, 1); }, {pair}, false},
      {"quantile_midpoint",
       [](In in) { return quantile(in[0], 0.3, 1, {.between = Quantile::kMidpoint}); },
       {pair},
       false},
      {"nanmean", [](In in) { return nanmean(in[0], 1) + in[0][0][0]; }, {pair}, false},
      {"var_mean", [](In in) { return var_mean(in[0], 1).spread; }, {pair}, false},
      {"cov", [](In in) { return cov(in[0] * 0.5); }, {pair}, false},
      {"corrcoef", [](In in) { return corrcoef(in[0]); }, {pair}, false},
      {"diff", [](In in) { return diff(in[0] * 0.5, 2, 1); }, {pair}},
      {"gradient", [](In in) { return gradient(in[0] * 0.5, 1, 1, 2); }, {pair}},
      {"trapezoid", [](In in) { return trapezoid(in[0] * 0.5, 1, 1); }, {{3, 3}}, false},
      {"cumulative_trapezoid", [](In in) { return cumulative_trapezoid(in[0] * 0.5, 1, 1); }, {{3, 3}}, false},
      {"column_stack",
       [](In in) {
         return column_stack({in[0], in[1]});
       },
       {{3}, {3, 2}}},
      {"dstack",
       [](In in) {
         return dstack({in[0], in[1]});
       },
       {pair, pair}},
      {"broadcast_tensors",
       [](In in) {
         return broadcast_tensors({in[0], in[1]})[0];
       },
       {{3, 1}, {3, 4}}},
      {"pad_sequence",
       [](In in) {
         return pad_sequence({in[0], in[1] * 0.5});
       },
       {{3, 2}, {3, 2}}},
      {"select_scatter", [](In in) { return select_scatter(in[0], in[1], 1, 2); }, {pair, {3}}},
      {"slice_scatter", [](In in) { return slice_scatter(in[0], in[1], 1, 1, 6, 2); }, {pair, {3, 3}}},
      {"diagonal_scatter",
       [](In in) { return diagonal_scatter(in[0], narrow(in[1], 0, 0, 3), -1, 1, 0); },
       {{3, 4}, {3}}},
      {"masked_scatter",
       [](In in) {
         return masked_scatter(in[0], Tensor::from({false, true, true}).to(in[0].device()), in[1]);
       },
       {{4, 3}, {4, 2}}},
      {"cartesian_prod",
       [](In in) {
         return cartesian_prod({in[0], in[1]});
       },
       {{3}, {2}}},
      {"combinations", [](In in) { return combinations(in[0], 2); }, {{4}}},
      {"pdist", [](In in) { return pdist(in[0] * 0.25); }, {{4, 3}}, false},
      {"renorm", [](In in) { return renorm(in[0], 2, 0, 0.5); }, {pair}},
      {"triplet",
       [](In in) {
         const auto distance = [](const Variable& a, const Variable& b) { return sum(square(a - b), -1) * 0.0625; };
         return triplet_margin_with_distance(in[0], in[1], in[2], distance,
                                             {.margin = 9, .reduction = Reduction::kNone});
       },
       {pair, pair, pair},
       false},
      {"householder",
       [](In in) {
         return householder_product(flip(in[0], {1, 2}) * 0.25, in[1] * 0.25);
       },
       {{2, 4, 3}, {2, 3}},
       false},
  };
}

namespace {

using test::error_of;
using Values = std::vector<double>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

Tensor there(const Values& values, const Shape& shape, DType dtype = DType::f32) {
  return Tensor::from(values, shape).to(dtype).to(tested_device());
}
Tensor row(const Values& values, DType dtype = DType::f32) {
  return there(values, Shape{static_cast<std::int64_t>(values.size())}, dtype);
}
Values values_of(const Variable& x) { return x.value().to_vector<double>(); }
/// Compares numbers, and NaN with NaN.
void expect(const Variable& got, const Values& want, double relative = 0) {
  const Values values = values_of(got);
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_TRUE((std::isnan(values[i]) && std::isnan(want[i])) || values[i] == want[i] ||
                std::abs(values[i] - want[i]) <= relative * std::abs(want[i]))
        << i << ": " << values[i] << " instead of " << want[i];
}

TEST(NamedFunctions, SpecialFunctionsAtSpecialPoints) {
  expect(erfc(row({0, kInfinity, -kInfinity, kNaN}, DType::f64)), {1, 0, 2, kNaN});
  expect(erfc(row({10}, DType::f64)), {2.0884875837625447570e-45}, 1e-13);
  expect(sinc(row({0, 1, -3, 0.5, kInfinity}, DType::f64)), {1, 0, 0, 2 / 3.14159265358979323846, kNaN}, 1e-15);
  expect(i0(row({0, kInfinity, -kInfinity, kNaN})), {1, kInfinity, kInfinity, kNaN});
  expect(i1(row({0, kInfinity, -kInfinity, kNaN})), {0, kInfinity, -kInfinity, kNaN});
  // Abramowitz and Stegun, tables 9.8 and 6.1, with more digits.
  expect(i0(row({1, 20, 20.5, 100}, DType::f64)),
         {1.2660658777520083356, 4.3558282559553534e7, 7.0922869834316984e7, 1.0737517071310738e42}, 1e-12);
  expect(polygamma(1, row({1}, DType::f64)), {1.6449340668482264365}, 1e-14);
  expect(polygamma(2, row({1, 0.5}, DType::f64)), {-2.4041138063191885708, -16.828796644234319996}, 1e-13);
  expect(polygamma(3, row({1}, DType::f64)), {6.4939394022668291491}, 1e-13);
  // By the recurrence polygamma(2, x) = polygamma(2, x + 1) - 2 / x^3, from positive numbers.
  const double at_half = -16.828796644234319996;
  expect(polygamma(2, row({-0.5, -1.5}, DType::f64)), {at_half + 16, at_half + 16 + 2 / 3.375}, 1e-12);
  expect(polygamma(2, row({0, -3}, DType::f64)), {-kInfinity, -kInfinity});
  expect(polygamma(2, row({-1e-20, 1e-20}, DType::f64)), {2e60, -2e60}, 1e-14);  // -2 / x^3
  expect(polygamma(2, row({kInfinity, kNaN})), {0, kNaN});
  expect(i0(row({1e20})), {kInfinity});
  EXPECT_THROW(polygamma(-1, row({1})), ArgumentError);
  EXPECT_THROW(mvlgamma(row({1}), 0), ArgumentError);
}

TEST(NamedFunctions, DivisorsOfWholeNumbers) {
  for (const DType dtype : {DType::i64, DType::i32}) {
    const Variable a = row({12, -12, 0, 0, -7}, dtype), b = row({18, 18, 5, 0, -7}, dtype);
    expect(gcd(a, b), {6, 6, 5, 0, 7});
    expect(lcm(a, b), {36, 36, 0, 0, 7});
    EXPECT_EQ(gcd(a, b).dtype(), dtype);
  }
  expect(gcd(row({12}, DType::u8), row({18}, DType::i64)), {6});
  const Tensor least = Tensor::full({1}, static_cast<double>(std::numeric_limits<std::int64_t>::min()), DType::i64);
  expect(gcd(least.to(tested_device()), row({6}, DType::i64)), {2});
  EXPECT_THROW(gcd(row({1}), row({2}, DType::i64)), DTypeError);
  EXPECT_THROW(lcm(row({1}, DType::boolean), row({1}, DType::boolean)), DTypeError);
}

TEST(NamedFunctions, Comparisons) {
  const Variable a = row({1, 1, kInfinity, -kInfinity, kNaN, 0}),
                 b = row({1.000005F, 1.1, kInfinity, kInfinity, kNaN, 1e-9});
  expect(isclose(a, b), {1, 0, 1, 0, 0, 1});
  expect(isclose(a, b, {.equal_nan = true}), {1, 0, 1, 0, 1, 1});
  EXPECT_FALSE(allclose(a, b));
  EXPECT_TRUE(allclose(row({1, 2}), row({1, 2}, DType::i64)));
  EXPECT_TRUE(equal(row({1, 2}), row({1, 2})));
  EXPECT_FALSE(equal(row({1, 2}), row({1, 3})));
  EXPECT_FALSE(equal(row({1, 2}), there({1, 2}, {1, 2})));
  EXPECT_FALSE(equal(row({kNaN}), row({kNaN})));
  EXPECT_THROW(isclose(a, b, {.rtol = -1}), ArgumentError);
  expect(isin(row({1, 2, kNaN, -0.0}), row({kNaN, 0, 2})), {0, 1, 0, 1});
  expect(isin(row({1, 2, 3}, DType::i64), row({2.5, 3})), {0, 0, 1});
  expect(isin(row({0, 1}, DType::boolean), row({1, 1}, DType::boolean)), {0, 1});
  expect(isin(row({1, 2}), row({})), {0, 0});
  expect(signbit(row({-0.0, 0, -kInfinity, 3})), {1, 0, 1, 0});
  expect(signbit(row({-2, 2}, DType::i32)), {1, 0});
  expect(heaviside(row({-1, 0, 2, kNaN}), row({0.5})), {0, 0.5, 1, kNaN});
  expect(heaviside(row({-1, 0, 2}, DType::i64), row({7}, DType::i64)), {0, 7, 1});
}

TEST(NamedFunctions, NanIsLeftOut) {
  const Variable x = there({3, kNaN, 1, 2, kNaN, kNaN, kNaN, kNaN}, {2, 4});
  expect(nansum(x, 1), {6, 0});
  expect(nanmean(x, 1), {2, kNaN});
  const auto [median, position] = nanmedian(x, 1);
  expect(median, {2, kNaN});
  EXPECT_EQ(values_of(position)[0], 3);
  expect(nanquantile(x, 0.25, 1), {1.5, kNaN});
  expect(quantile(x, 0.25, 1), {kNaN, kNaN});
  expect(nanmedian(x), {2});
  expect(nansum(there({1, kInfinity}, {2})), {kInfinity});
  expect(fmax(row({kNaN, 1, kNaN}), row({2, kNaN, kNaN})), {2, 1, kNaN});
  EXPECT_EQ(nansum(row({1, 2}, DType::i32)).dtype(), DType::i64);
}

TEST(NamedFunctions, QuantilesOfFewAndInfiniteElements) {
  expect(quantile(row({7}), 0.3), {7});
  expect(quantile(row({kInfinity, kInfinity, 1}), 0.75), {kInfinity});
  expect(quantile(row({-kInfinity, -kInfinity, 1}), 0.25), {-kInfinity});
  expect(quantile(row({1, 2, 3, 4}), {0, 0.5, 1}), {1, 2.5, 4});
  expect(quantile(row({1, 2, 3, 4}), 0.5, {}, {.between = Quantile::kNearest}), {3});  // position 1.5: to even, 2
  EXPECT_EQ(quantile(there({1, 2, 3, 4}, {2, 2}), 0.5, {}, {.keepdim = true}).shape(), (Shape{1, 1}));
  EXPECT_EQ(quantile(there({1, 2, 3, 4}, {2, 2}), {0.5, 1}, 0).shape(), (Shape{2, 2}));
  EXPECT_EQ(quantile(row({1, 2}, DType::bf16), 0.5).dtype(), DType::f32);
  EXPECT_THROW(quantile(row({1}), 1.5), ArgumentError);
  EXPECT_THROW(quantile(row({1}), kNaN), ArgumentError);
  EXPECT_THROW(quantile(row({}), 0.5), ShapeError);
}

TEST(NamedFunctions, AScalarIsOneElement) {
  const Variable x = there({3}, Shape{});
  for (const int axis : {0, -1}) {
    expect(nanmedian(x, axis).values, {3});
    expect(mode(x, axis).indices, {0});
    expect(quantile(x, 0.5, axis), {3});
    for (const bool keepdim : {false, true}) {
      EXPECT_EQ(mode(x, axis, keepdim).values.shape(), Shape{});
      EXPECT_EQ(nanmedian(x, axis, keepdim).indices.shape(), Shape{});
      EXPECT_EQ(quantile(x, 0.5, axis, {.keepdim = keepdim}).shape(), Shape{});
    }
  }
  EXPECT_THROW(mode(x, 1), ArgumentError);
  EXPECT_THROW(nanmedian(x, 1), ArgumentError);
  EXPECT_THROW(quantile(x, 0.5, 1), ArgumentError);
}

TEST(NamedFunctions, CompositesRoundOnce) {
  // If intermediate results were rounded to bf16, digits would be lost: its spacing at 1 is 2^-7.
  const double a = 1 + 0x1p-7, b = 1 + 0x1p-6;
  const auto half = [](double v) { return row({v}, DType::bf16); };
  const auto rounded = [](double v) { return Tensor::full({1}, v, DType::f64).to(DType::bf16).to_vector<double>()[0]; };
  expect(addcmul(half(-1), half(a), half(b)), {rounded(a * b - 1)});
  expect(addcdiv(half(-1), half(a), half(b)), {rounded(a / b - 1)});
  expect(lerp(half(1), half(-a), 0.5), {rounded((1 - a) / 2)});
  expect(lerp(half(1), half(-a), half(0.5)), {rounded((1 - a) / 2)});
  expect(logaddexp2(half(128), half(128)), {129});
  EXPECT_EQ(lerp(half(1), row({2}, DType::f16), 0.5).dtype(), DType::f32);
  const Variable whole = addcmul(row({1}, DType::i64), row({2}, DType::i64), row({3}, DType::i64), -2);
  EXPECT_EQ(whole.dtype(), DType::i64);
  expect(whole, {-11});
  EXPECT_EQ(addcmul(row({1}, DType::i64), row({2}, DType::i64), row({3}, DType::i64), 0.5).dtype(), DType::f32);
}

TEST(NamedFunctions, SpecialFunctionsFarOut) {
  const auto far = [](double v) { return row({v}, DType::f64); };
  expect(i0(far(713)), {6.7051282636709967e307}, 1e-12);  // the power series, in 60 digits
  for (const double x : {801.0, 0x1p53, 1e300, kInfinity}) {
    expect(i0(far(-x)), {kInfinity});
    expect(i1(far(-x)), {-kInfinity});
  }
  for (const int n : {1, 2, 3, 10}) expect(polygamma(n, far(kInfinity)), {0});
}

TEST(NamedFunctions, SincHasDerivativesAtZero) {
  const double kPi = 3.14159265358979323846;
  const Variable x(row({0, 1e-9, 0.1, 0.3, 1}, DType::f64), true);
  const Variable slope = grad(sum(sinc(x)), x, {.create_graph = true});
  const Variable second = grad(sum(slope), x, {.create_graph = true});
  // The power series, in 60 digits.
  const double at_zero = -kPi * kPi / 3;
  expect(second, {at_zero, at_zero, -3.1930298359648538, -2.4584852862661742, 2}, 1e-13);
  expect(narrow(grad(sum(second), x), 0, 0, 1), {0}, 1e-14);
}

TEST(NamedFunctions, TheMostFrequentElement) {
  const auto [values, positions] = mode(there({5, 2, 2, 5, 1, 3, 3, 1, 3, 0}, {2, 5}), 1);
  expect(values, {2, 3});
  expect(positions, {2, 3});
  const auto [down, rows] = mode(there({1, 2, 1, 3, 0, 3}, {3, 2}, DType::i64), 0, true);
  expect(down, {1, 3});
  expect(rows, {1, 2});
  EXPECT_EQ(down.shape(), (Shape{1, 2}));
  expect(mode(row({kNaN, 1, kNaN})).values, {1});
  expect(mode(row({kNaN, kNaN})).values, {kNaN});
  const Variable x(row({5, 2, 2, 5, 2}), true);
  backward(mode(x).values);
  expect(Variable(x.grad()), {0, 0, 0, 0, 1});
}

TEST(NamedFunctions, Histograms) {
  const Variable x = row({0, 0.5, 1, 2, 4, -1, 5, kNaN});
  const auto [counts, edges] = histogram(x, row({0, 1, 2, 4}));
  expect(counts, {2, 1, 2});
  expect(edges, {0, 1, 2, 4});
  expect(histogram(x, 4, {.low = 0, .high = 4}).counts, {2, 1, 1, 1});
  expect(histogram(row({3, 3}), 2).edges, {2.5, 3, 3.5});
  const auto [half_counts, half_edges] = histogram(row({0, 0.1, 0.2}, DType::bf16), 3, {.low = 0, .high = 0.3});
  EXPECT_EQ(half_edges.dtype(), DType::f32);
  expect(half_edges, {0, 0.1, 0.2, 0.3}, 1e-7);
  expect(half_counts, {1, 1, 1});  // 0.1 and 0.2 are a little larger in bf16
  expect(histogram(row({1, 3}), row({0, 2, 6}), {.weights = row({2, 6})}).counts, {2, 6});
  expect(histogram(row({1, 3}), row({0, 2, 6}), {.weights = row({2, 6}), .density = true}).counts, {0.125, 0.1875});
  EXPECT_THROW(histogram(x, 0), ArgumentError);
  EXPECT_THROW(histogram(x, 4), ArgumentError) << "NaN is no bound";
  EXPECT_THROW(histogram(row({1}, DType::i64), 4), DTypeError);
  EXPECT_THROW(histogram(x, row({1})), ShapeError);
}

TEST(NamedFunctions, CovariancesOfTooFewObservations) {
  expect(cov(there({1, 2}, {2, 1})), {kNaN, kNaN, kNaN, kNaN});
  expect(cov(row({1, 3})), {2});
  expect(cov(row({1, 3}), {.correction = 0}), {1});
  EXPECT_EQ(cov(row({1, 3})).shape(), Shape{});
  expect(corrcoef(there({1, 2, 3, 3, 2, 1}, {2, 3})), {1, -1, -1, 1}, 1e-6);
  EXPECT_THROW(cov(there({1}, {1, 1, 1})), ShapeError);
  EXPECT_THROW(cov(row({1, 3}), {.weights = row({1})}), ShapeError);
}

TEST(NamedFunctions, DifferencesOfWholeNumbersAndErrors) {
  expect(diff(row({1, 4, 9}, DType::i64)), {3, 5});
  expect(diff(row({0, 1, 1}, DType::boolean)), {1, 0});
  EXPECT_EQ(diff(row({1, 2}), 5).shape(), Shape{0});
  expect(gradient(row({1, 4, 9, 16}, DType::i64), 1, 0), {3, 4, 6, 7});
  expect(gradient(row({1, 4, 9}), row({0, 1, 3}), 0), {3, 3 - 1 / 6.0 * 1, 2.5}, 1e-6);
  expect(gradient(row({1, kNaN, 5, 7}), 1, 0), {kNaN, 2, kNaN, 2});
  expect(gradient(row({1, kNaN, 5, 7}), row({0, 1, 2, 3}), 0), {kNaN, 2, kNaN, 2});
  // The weights of single points, about 1e6, do not fit into f16, and their terms cancel in f32.
  expect(gradient(row({0, 0x1p-20, 0x1p-18}, DType::f16), 0x1p-20, 0), {1, 2, 3});
  expect(gradient(row({0, 0x1p-20, 0x1p-18}, DType::f16), row({0, 0x1p-20, 0x1p-19 + 0x1p-20}), 0, 2),
         {1 - 0.5 / 3, 1 + 0.5 / 3, 1.5 + 0.5 * 2 / 3}, 1e-3);
  expect(gradient(row({1e6, 1e6, 1e6}), row({0, 1e-3, 3e-3}), 0), {0, 0, 0});
  EXPECT_EQ(gradient(there({1, 2, 3, 4}, {2, 2})).size(), 2U);
  EXPECT_THROW(gradient(row({1}), 1, 0), ShapeError);
  EXPECT_THROW(gradient(row({1, 2}), 0, 0), ArgumentError);
  EXPECT_THROW(gradient(row({1, 2}), row({1, 1}), 0), ArgumentError);
  EXPECT_THROW(gradient(row({1, 2, 3}), 1, 0, 3), ArgumentError);
  const Variable none = Tensor::zeros({0, std::int64_t{1} << 40});
  EXPECT_EQ(diff(none, std::int64_t{1} << 39).shape(), (Shape{0, std::int64_t{1} << 39}));
  EXPECT_EQ(gradient(none, 1, 1).shape(), none.shape());
  expect(trapezoid(row({1})), {0});
  expect(trapezoid(row({1, 2, 3}, DType::i64)), {4});
  EXPECT_THROW(trapezoid(row({1, 2}), row({1, 2, 3})), ShapeError);
}

TEST(NamedFunctions, PiecesOfEveryDtype) {
  for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::boolean, DType::f16}) {
    const Variable x = there({1, 0, 1, 1, 0, 0}, {2, 3}, dtype), two = row({0, 1}, dtype);
    expect(select_scatter(x, two, 1, -1), {1, 0, 0, 1, 0, 1});
    expect(slice_scatter(x, there({0, 1}, {2, 1}, dtype), 1, 0, 1), {0, 0, 1, 1, 0, 0});
    expect(diagonal_scatter(x, two), {0, 0, 1, 1, 1, 0});
    expect(masked_scatter(x, row({1, 0, 0}, DType::boolean), two), {0, 0, 1, 1, 0, 0});
    EXPECT_EQ(masked_scatter(x, row({1, 0, 0}, DType::u8), two).dtype(), dtype);
    expect(combinations(two), {0, 1});
    expect(cartesian_prod({two, two}), {0, 0, 0, 1, 1, 0, 1, 1});
  }
  expect(pad_sequence({row({1, 2}, DType::i64), row({3}, DType::i64)}, -1), {1, 2, 3, -1});
  EXPECT_THROW(pad_sequence({row({1, 2}), there({1}, {1, 1})}), ShapeError);
  EXPECT_EQ(combinations(row({1, 2}), 3).shape(), (Shape{0, 3}));
  EXPECT_EQ(combinations(row({1, 2, 3, 4}), 2, true).dim(0), 10);
  EXPECT_EQ(combinations(row({}), 2, true).dim(0), 0);
  EXPECT_EQ(combinations(arange(0, 64), 62).shape(), (Shape{2016, 62}));
  EXPECT_EQ(atleast_3d(row({1, 2})).shape(), (Shape{1, 2, 1}));
  EXPECT_EQ(atleast_2d(there({1}, Shape{})).shape(), (Shape{1, 1}));
  EXPECT_THROW(select_scatter(there({1, 2}, {1, 2}), row({1, 2}), 1, 0), ShapeError);
  EXPECT_THROW(select_scatter(there({1, 2}, {1, 2}), row({1}), 1, 2), ArgumentError);
  EXPECT_THROW(slice_scatter(row({1, 2}), row({1}, DType::f16), 0, 0, 1), DTypeError);
  EXPECT_THROW(masked_scatter(row({1, 2}), row({1, 1}, DType::boolean), row({1})), ShapeError);
  EXPECT_THROW(combinations(arange(0, 100000), 3), ShapeError);
}

TEST(NamedFunctions, TensorsOfNumbers) {
  EXPECT_EQ(values_of(Variable(ones({2}, DType::i32))), (Values{1, 1}));
  expect(Variable(logspace(0, 2, 3, 10, DType::f64)), {1, 10, 100}, 1e-15);
  expect(Variable(logspace(0, 3, 4, 2)), {1, 2, 4, 8});
  EXPECT_EQ(empty_like(row({1, 2}, DType::f16)).dtype(), DType::f16);
  for (const std::int64_t k : {-5, -2, -1, 0, 1, 2, 5})
    for (const Shape& shape : {Shape{3, 4}, Shape{4, 3}, Shape{0, 3}, Shape{3, 0}, Shape{1, 1}}) {
      const Tensor all = Tensor::full(shape, 1);
      const auto places = [](const Variable& kept) { return values_of(transpose(nonzero(kept))); };
      EXPECT_EQ(values_of(Variable(tril_indices(shape[0], shape[1], k))), places(tril(all, k)))
          << shape.to_string() << k;
      EXPECT_EQ(values_of(Variable(triu_indices(shape[0], shape[1], k))), places(triu(all, k)))
          << shape.to_string() << k;
    }
  EXPECT_THROW(tril_indices(-1, 2), ArgumentError);
}

TEST(NamedFunctions, PoissonNumbersHaveTheirMoments) {
  step_context().next = OpNumbers::at(11);
  constexpr std::int64_t n = 100000;
  for (const double rate : {0.3, 5.0, 12.5, 4000.0}) {
    const Values drawn = poisson(Tensor::full({n}, rate, DType::f64)).to_vector<double>();
    double mean = 0, variance = 0;
    for (const double v : drawn) mean += v / n;
    for (const double v : drawn) variance += (v - mean) * (v - mean) / n;
    // Five standard errors; the variance of an estimate of the variance is (2 rate^2 + rate) / n.
    EXPECT_NEAR(mean, rate, 5 * std::sqrt(rate / n));
    EXPECT_NEAR(variance, rate, 5 * std::sqrt((2 * rate * rate + rate) / n));
  }
  EXPECT_EQ(values_of(Variable(poisson(Tensor::zeros({3})))), (Values{0, 0, 0}));
  step_context().next = OpNumbers::at(3);
  const Values once = poisson(Tensor::full({5}, 7.0)).to_vector<double>();
  step_context().next = OpNumbers::at(3);
  EXPECT_EQ(poisson(Tensor::full({5}, 7.0, DType::f32, tested_device())).to_vector<double>(), once);
  EXPECT_THROW(poisson(Tensor::full({1}, -1)), ArgumentError);
  EXPECT_THROW(poisson(Tensor::full({1}, kNaN)), ArgumentError);
}

TEST(NamedFunctions, ErrorsNameTheFunction) {
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(contains(error_of([] { channel_shuffle(there({1, 2, 3}, {1, 3}), 2); }), "channel_shuffle"));
  EXPECT_TRUE(contains(error_of([] { renorm(row({1}), 2, 0, 1); }), "renorm"));
  EXPECT_TRUE(contains(error_of([] { pdist(row({1})); }), "pdist"));
  EXPECT_TRUE(contains(error_of([] { tensorinv(there({1, 2}, {1, 2}), 1); }), "tensorinv"));
  EXPECT_TRUE(contains(error_of([] { column_stack({}); }), "column_stack"));
  EXPECT_TRUE(contains(error_of([] { normalize(row({1}, DType::i64)); }), "normalize"));
  EXPECT_TRUE(contains(error_of([] { triplet_margin_with_distance(row({1}), row({1}), row({1}), nullptr); }),
                       "triplet_margin_with_distance"));
}

}  // namespace
}  // namespace binade::conformance
