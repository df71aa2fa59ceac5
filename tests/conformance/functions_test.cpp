#include "binade/autograd/functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <sstream>

#include "binade/autograd/gradcheck.h"
#include "binade/core/make.h"
#include "binade/core/step_context.h"
#include "tests/conformance/case.h"
#include "tests/tested_device.h"

/// Functions composed of ops, functions that create tensors, and operators.
namespace binade::conformance {
namespace {

using Doubles = std::vector<double>;
using Wholes = std::vector<std::int64_t>;

Tensor here(const Tensor& x) { return x.to(tested_device()); }
Doubles doubles(const Variable& x) { return x.value().to_vector<double>(); }
Wholes wholes(const Variable& x) { return x.value().to_vector<std::int64_t>(); }
void expect_near(const Variable& got, const Doubles& want, double relative) {
  const Doubles values = doubles(got);
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    if (std::isfinite(want[i]))
      EXPECT_NEAR(values[i], want[i], relative * std::abs(want[i])) << i;
    else
      EXPECT_TRUE(values[i] == want[i] || (std::isnan(values[i]) && std::isnan(want[i]))) << i << ": " << values[i];
}

TEST(ComposedReductions, AgreeWithDoublePrecision) {
  const Tensor x = random(Shape{3, 70}, 1);
  const Doubles values = x.to_vector<double>();
  Doubles mean(3), variance(3), log_sum(3);
  for (std::size_t r = 0; r < 3; ++r) {
    const double* row = values.data() + 70 * r;
    mean[r] = std::accumulate(row, row + 70, 0.0) / 70;
    for (int c = 0; c < 70; ++c) {
      variance[r] += (row[c] - mean[r]) * (row[c] - mean[r]) / 67;
      log_sum[r] += std::exp(row[c]);
    }
    log_sum[r] = std::log(log_sum[r]);
  }
  const Variable f32 = here(x.to(DType::f32)), f64 = here(x);
  expect_near(var(f64, -1, 3), variance, 1e-14);
  expect_near(logsumexp(f64, -1), log_sum, 1e-14);
  // The sums have 70 rounding errors of 2^-24, plus the rounding of the inputs.
  expect_near(var(f32, -1, 3), variance, 1e-5);
  expect_near(logsumexp(f32, 1), log_sum, 1e-5);
  for (double& v : variance) v = std::sqrt(v);
  expect_near(stddev(f32, {1}, 3), variance, 1e-5);
  EXPECT_EQ(var(f32, {}, 1, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(logsumexp(f32, {}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(logsumexp(f32).shape(), Shape{});
  EXPECT_EQ(logsumexp(Variable(here(x.to(DType::bf16))), 0).dtype(), DType::f32);
}

TEST(ComposedReductions, KeepInfinitiesAndFewElements) {
  const double infinity = HUGE_VAL, nan = std::nan("");
  const Variable x = here(
      Tensor::from(Doubles{1000, 1000, -infinity, -infinity, infinity, 0, nan, 0}, {4, 2}).to(DType::f32));
  expect_near(logsumexp(x, 1), {1000 + std::log(2.0), -infinity, infinity, nan}, 1e-7);
  expect_near(var(Variable(here(Tensor::full({2, 1}, 3))), 1), {nan, nan}, 0);
  expect_near(var(Variable(here(Tensor::full({2, 1}, 3))), 1, 0), {0, 0}, 0);
  expect_near(norm(x, infinity, 1), {1000, infinity, infinity, nan}, 0);
  expect_near(norm(x, -infinity, 1), {1000, infinity, 0, nan}, 0);
  expect_near(norm(x, 0, 1), {2, 2, 1, 1}, 0);
  EXPECT_EQ(wholes(count_nonzero(x, 1)), (Wholes{2, 2, 1, 1}));
  EXPECT_THROW(max(Variable(here(Tensor::zeros({2, 0}))), 1), ShapeError);
  EXPECT_THROW(sum(x, 2), ShapeError);
}

TEST(ComposedReductions, HaveTheGradientsOfTheirFormulas) {
  const std::vector<Tensor> inputs{random(Shape{3, 5}, 2)};
  const GradcheckOptions options{.device = tested_device()};
  const auto check = [&](const char* name, const std::function<Variable(const std::vector<Variable>&)>& f) {
    const GradcheckResult first = gradcheck(f, inputs, options);
    EXPECT_TRUE(first.passed) << name << ": " << first.message;
  };
  check("var", [](const auto& x) { return var(x[0], 1); });
  check("stddev", [](const auto& x) { return stddev(x[0], {0}); });
  check("logsumexp", [](const auto& x) { return logsumexp(x[0], -1); });
  check("inf norm", [](const auto& x) { return norm(x[0], HUGE_VAL); });
  check("tril", [](const auto& x) { return tril(x[0], 1) * x[0]; });
  check("diag", [](const auto& x) { return diag(x[0], 1) * diag(x[0], 1); });
  check("diag of a vector", [](const auto& x) { return square(diag(x[0][1], -2)); });
  check("[]", [](const auto& x) { return x[0][-1] * x[0][0]; });
}

TEST(Products, HaveAGradientAtZeros) {
  const auto gradient = [](const Doubles& values) {
    const Variable x(here(Tensor::from(values, {4})), true);
    backward(prod(x));
    return x.grad().to_vector<double>();
  };
  EXPECT_EQ(gradient({2, 3, 4, 5}), (Doubles{60, 40, 30, 24}));
  EXPECT_EQ(gradient({2, 0, 4, 5}), (Doubles{0, 40, 0, 0}));
  EXPECT_EQ(gradient({2, 0, 0, 5}), (Doubles{0, 0, 0, 0}));
}

TEST(Norms, PassNanOnButNotToTheSlopesOfOtherElements) {
  const Variable x(here(Tensor::from({1.f, static_cast<float>(std::nan("")), -2.f, 0.f})), true);
  const Variable y = norm(x, 1);
  EXPECT_TRUE(std::isnan(y.item()));
  backward(y);
  expect_near(Variable(x.grad()), {1, std::nan(""), -1, 0}, 0);
}

TEST(Extrema, GiveValuesAndPositions) {
  const Variable x(here(Tensor::from({{1.f, 5.f, 5.f}, {7.f, -2.f, 7.f}})), true);
  const auto [values, indices] = max(x, 1);
  EXPECT_EQ(doubles(values), (Doubles{5, 7}));
  EXPECT_EQ(wholes(indices), (Wholes{1, 0}));
  EXPECT_EQ(indices.dtype(), DType::i64);
  backward(sum(values));
  EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{0, 1, 0, 1, 0, 0})) << "the first of equal elements";
  EXPECT_EQ(wholes(min(x, 0, true).indices), (Wholes{0, 1, 0}));
  EXPECT_EQ(min(x, 0, true).values.shape(), (Shape{1, 3}));
  EXPECT_EQ(wholes(argmax(x)), Wholes{3});
  EXPECT_EQ(wholes(argmin(x, 0)), (Wholes{0, 1, 0}));
  EXPECT_EQ(doubles(max(x, {1})), (Doubles{5, 7})) << "braces: values only";
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}}) {
    const Variable none(here(Tensor::zeros(shape)), true);
    const Variable largest = max(none, shape[0] == 0 ? 1 : 0).values;
    backward(largest, Tensor::zeros(largest.shape(), DType::f32, tested_device()));
    EXPECT_EQ(none.grad().shape(), shape);
  }
  const Tensor long_row = here(arange(std::int64_t{0}, std::int64_t{100000}));
  EXPECT_EQ(wholes(argmax(long_row)), Wholes{99999});
  EXPECT_EQ(wholes(argmin(long_row)), Wholes{0});
}

TEST(WholeReductions, AreExact) {
  const Variable x = here(Tensor::from(Wholes{(std::int64_t{1} << 53) + 1, 2, -3, 4, 5, 6}, {2, 3}));
  EXPECT_EQ(wholes(sum(x, 1)), (Wholes{(std::int64_t{1} << 53) + 0, 15}));
  EXPECT_EQ(wholes(prod(x, 0)), (Wholes{4 * ((std::int64_t{1} << 53) + 1), 10, -18}));
  EXPECT_EQ(wholes(max(x, {0, 1})), Wholes{(std::int64_t{1} << 53) + 1});
  EXPECT_EQ(wholes(min(x)), Wholes{-3});
  const Variable truths = x > 3;
  EXPECT_EQ(sum(truths).dtype(), DType::i64);
  EXPECT_EQ(wholes(sum(truths, 0)), (Wholes{2, 1, 1}));
  EXPECT_EQ(wholes(any(truths, 1)), (Wholes{1, 1}));
  EXPECT_EQ(wholes(all(truths, 1)), (Wholes{0, 1}));
  EXPECT_EQ(any(x).dtype(), DType::boolean);
  EXPECT_EQ(wholes(any(Variable(here(Tensor::zeros({0, 2}))), 0)), (Wholes{0, 0}));
  EXPECT_EQ(wholes(all(Variable(here(Tensor::zeros({0, 2}))), 0)), (Wholes{1, 1}));
  const Variable many = here(Tensor::full({300, 40}, 1, DType::u8));
  EXPECT_EQ(wholes(sum(many, {0, 1})), Wholes{12000});
  const Variable spread = here(arange(std::int64_t{0}, std::int64_t{2 * 3 * 4 * 5}).reshape({2, 3, 4, 5}));
  EXPECT_EQ(wholes(sum(spread, {0, 2})), wholes(sum(sum(spread, 2), 0)));
}

TEST(Made, RangesAndMatrices) {
  EXPECT_EQ(wholes(arange(4)), (Wholes{0, 1, 2, 3}));
  EXPECT_EQ(arange(4).dtype(), DType::i64);
  EXPECT_EQ(wholes(arange(5, -1, -2)), (Wholes{5, 3, 1}));
  EXPECT_EQ(doubles(arange(0.0, 1.0, 0.25)), (Doubles{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(arange(3, 3).numel(), 0);
  EXPECT_THROW(arange(0, 3, 0), ArgumentError);
  EXPECT_EQ(doubles(linspace(0, 1, 5, DType::f64)), (Doubles{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(doubles(linspace(3, 4, 1)), Doubles{3});
  EXPECT_EQ(wholes(eye(2, 3, DType::i32)), (Wholes{1, 0, 0, 0, 1, 0}));
  const Variable x = here(arange(1, 10).reshape({3, 3}));
  EXPECT_EQ(wholes(tril(x)), (Wholes{1, 0, 0, 4, 5, 0, 7, 8, 9}));
  EXPECT_EQ(wholes(triu(x, 1)), (Wholes{0, 2, 3, 0, 0, 6, 0, 0, 0}));
  EXPECT_EQ(wholes(diag(x)), (Wholes{1, 5, 9}));
  EXPECT_EQ(wholes(diag(x, -1)), (Wholes{4, 8}));
  EXPECT_EQ(wholes(diag(Variable(here(arange(1, 3))), 1)), (Wholes{0, 1, 0, 0, 0, 2, 0, 0, 0}));
  for (const std::int64_t k : {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    EXPECT_THROW(diag(x, k), ShapeError);
    EXPECT_THROW(diag(Variable(here(arange(1, 3))), k), ShapeError);
    EXPECT_EQ(wholes(k < 0 ? tril(x, k) : triu(x, k)), Wholes(9));
  }
  EXPECT_EQ(wholes(one_hot(Variable(here(Tensor::from(Wholes{2, 0}, {2}))), 3)), (Wholes{0, 0, 1, 1, 0, 0}));
  const std::vector<Variable> grid = meshgrid({Variable(here(arange(2))), Variable(here(arange(3)))});
  EXPECT_EQ(wholes(grid[0]), (Wholes{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(wholes(grid[1]), (Wholes{0, 1, 2, 0, 1, 2}));
}

TEST(Made, FromBracesAndForeignMemory) {
  const Tensor x = Tensor::from({{1.f, 2.f}, {3.f, 4.f}});
  EXPECT_EQ(x.shape(), (Shape{2, 2}));
  EXPECT_EQ(Tensor::from({1.f, 2.f}, {2, 1}).shape(), (Shape{2, 1}));
  EXPECT_EQ(Tensor::from({1, 2}).dtype(), DType::i32);
  EXPECT_THROW(Tensor::from({{1.f}, {2.f, 3.f}}), ShapeError);
  std::vector<float> memory{1, 2, 3, 4};
  Tensor view = Tensor::from_blob(memory.data(), {2, 2});
  view.fill(7);
  EXPECT_EQ(memory[3], 7);
  EXPECT_EQ(view[1].shape(), Shape{2});
  EXPECT_THROW(Tensor::from_blob(nullptr, {1}), ArgumentError);
  const auto owner = std::make_shared<int>(0);
  {
    const Tensor kept = Tensor::from_blob(memory.data(), {4}, DType::f32, Device::cpu(), owner);
    EXPECT_EQ(owner.use_count(), 2);
  }
  EXPECT_EQ(owner.use_count(), 1);
}

/// Calls f with the same step and tape index each time, so that it draws the same random numbers.
template <class F>
Doubles drawn(F&& f) {
  step_context().next = OpNumbers::at(3);
  return f().template to_vector<double>();
}

TEST(RandomTensors, HaveTheSameBitsOnEveryDevice) {
  const Shape shape{1001};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    EXPECT_EQ(drawn([&] { return rand(shape, dtype, tested_device()); }), drawn([&] { return rand(shape, dtype); }));
    EXPECT_EQ(drawn([&] { return randn(shape, dtype, tested_device()); }), drawn([&] { return randn(shape, dtype); }));
  }
  EXPECT_EQ(drawn([&] { return randint(-5, 1 << 30, shape, DType::i64, tested_device()); }),
            drawn([&] { return randint(-5, 1 << 30, shape); }));
  const Tensor p = rand({1001});
  EXPECT_EQ(drawn([&] { return bernoulli(here(p)); }), drawn([&] { return bernoulli(p); }));
  EXPECT_EQ(drawn([&] { return randperm(100, tested_device()); }), drawn([&] { return randperm(100); }));
  EXPECT_NE(drawn([&] { return rand(shape); }), rand(shape).to_vector<double>()) << "the next call draws other numbers";
}

TEST(RandomTensors, HaveTheirDistributions) {
  step_context().next = OpNumbers::at(100);
  constexpr std::int64_t n = 200000;
  const auto moments = [](const Tensor& x) {
    const Doubles values = x.to_vector<double>();
    const double count = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
    double square = 0;
    for (const double v : values) square += (v - mean) * (v - mean);
    return std::pair{mean, square / count};
  };
  // Five standard errors of each estimate.
  const auto [mean, variance] = moments(randn({n}, DType::f64, tested_device()));
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(variance, 1, 5 * std::sqrt(2.0 / n));
  const auto [middle, spread] = moments(rand({n}, DType::f64, tested_device()));
  EXPECT_NEAR(middle, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(spread, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / n));
  EXPECT_NEAR(moments(normal(3, 2, {n}, DType::f64)).first, 3, 10 / std::sqrt(n));
  EXPECT_NEAR(moments(bernoulli(here(Tensor::full({n}, 0.25)))).first, 0.25, 5 * std::sqrt(0.1875 / n));
  const Wholes below = randint(-2, 3, {n}, DType::i64, tested_device()).to_vector<std::int64_t>();
  for (std::int64_t v = -2; v < 3; ++v)
    EXPECT_NEAR(static_cast<double>(std::ranges::count(below, v)) / n, 0.2, 5 * std::sqrt(0.16 / n));
  Wholes order = randperm(1000).to_vector<std::int64_t>();
  EXPECT_FALSE(std::ranges::is_sorted(order));
  std::ranges::sort(order);
  EXPECT_EQ(order, wholes(arange(1000)));
}

TEST(RandomTensors, MultinomialDrawsInProportion) {
  step_context().next = OpNumbers::at(7);
  const Tensor weights = here(Tensor::from({1.f, 0.f, 3.f}));
  const Wholes many = multinomial(weights, 40000, true).to_vector<std::int64_t>();
  EXPECT_EQ(std::ranges::count(many, 1), 0);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(many, 2)) / 40000, 0.75, 5 * std::sqrt(0.1875 / 40000));
  const Wholes both = multinomial(weights, 2).to_vector<std::int64_t>();
  EXPECT_EQ(std::set(both.begin(), both.end()), (std::set<std::int64_t>{0, 2}));
  EXPECT_THROW(multinomial(weights, 3), ArgumentError);
  EXPECT_THROW(multinomial(here(Tensor::from({1.f, -1.f})), 1), ArgumentError);
  EXPECT_THROW(multinomial(here(Tensor::from({0.f, 0.f})), 1, true), ArgumentError);
}

TEST(Operators, AssignAndPrint) {
  Variable x = here(Tensor::from({1.f, 2.f}));
  const Variable before = x;
  x += 1;
  x *= x;
  x -= before;
  x /= 0.5;
  EXPECT_EQ(doubles(x), (Doubles{6, 14}));
  EXPECT_EQ(doubles(before), (Doubles{1, 2}));
  std::ostringstream text;
  text << Tensor::from({{1, 2}, {3, 4}}) << "; " << Variable(Tensor::from({true, false})) << "; " << Tensor::scalar(2.5)
       << "; " << Tensor::zeros({0, 3});
  EXPECT_EQ(text.str(),
            "i32 (2, 2) cpu [[1, 2], [3, 4]]; bool (2) cpu [true, false]; f32 () cpu 2.5; f32 (0, 3) cpu []");
  EXPECT_EQ(Tensor::from({{1, 2}, {3, 4}}).to_string(3), "i32 (2, 2) cpu [[1, 2], [3, …]]");
  EXPECT_TRUE(all(x == x).item() != 0);
}

}  // namespace
}  // namespace binade::conformance
