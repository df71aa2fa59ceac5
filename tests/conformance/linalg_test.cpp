#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "binade/autograd/functions.h"
#include "binade/autograd/grad.h"
#include "binade/autograd/gradcheck.h"
#include "binade/core/error.h"
#include "binade/core/make.h"
#include "binade/core/parallel.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"
#include "tests/conformance/case.h"
#include "tests/error_text.h"
#include "tests/tested_device.h"

// Tests of linear algebra that the conformance cases do not cover: einsum compared with its definition, errors, NaN,
// signs, empty and large matrices, and functions that are composed of several ops.
namespace binade::conformance {
namespace {

using test::error_of;
using Values = std::vector<double>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Values values_of(const Variable& x) { return x.value().to_vector<double>(); }
Tensor here(const Tensor& x) { return x.to(tested_device()); }
/// Returns random numbers on the device under test.
Tensor random(const Shape& shape, std::uint64_t tag, double low = -2, double high = 2) {
  return here(conformance::random(shape, tag, low, high));
}
Variable matrix(const Values& values, const Shape& shape, DType dtype = DType::f64) {
  return here(Tensor::from(values, shape).to(dtype));
}
/// Returns eye() on the device under test.
Variable identity(std::int64_t rows, std::int64_t columns, DType dtype) {
  return eye(rows, columns, dtype, tested_device());
}
/// gradcheck() and gradgradcheck() on the device under test.
using Function = std::function<Variable(const std::vector<Variable>&)>;
GradcheckResult first_derivatives(const Function& f, const std::vector<Tensor>& inputs, int most = 48) {
  return gradcheck(f, inputs, {.max_elements = most, .device = tested_device()});
}
GradcheckResult second_derivatives(const Function& f, const std::vector<Tensor>& inputs) {
  return gradgradcheck(f, inputs, {.device = tested_device()});
}
double largest(const Variable& x) {
  double most = 0;
  for (const double v : values_of(x)) most = std::isnan(v) ? v : std::max(most, std::abs(v));
  return most;
}
/// Returns a random matrix with distinct singular values near 2.
Variable regular(const Shape& shape, std::uint64_t tag) {
  const double high = 0.5 / std::sqrt(static_cast<double>(shape[-1]));
  const Variable x = random(shape, tag, -high, high);
  return x + 2.0 * identity(shape[-2], shape[-1], DType::f64);
}

// ---- einsum ------------------------------------------------------------------------------------------------------

/// Computes einsum by its definition: loops over all values of all letters. Sets `shape` to the shape of the result.
Values by_definition(const std::string& inputs, const std::string& result, const std::vector<Tensor>& operands,
                     Shape* shape) {
  std::vector<std::string> parts(1);
  for (const char c : inputs) c == ',' ? parts.emplace_back() : parts.back() += c;
  std::map<char, std::int64_t> extents;
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::size_t d = 0; d < parts[i].size(); ++d) {
      std::int64_t& e = extents.try_emplace(parts[i][d], 1).first->second;
      if (operands[i].dim(static_cast<int>(d)) != 1) e = operands[i].dim(static_cast<int>(d));
    }
  std::vector<std::int64_t> dims;
  for (const char c : result) dims.push_back(extents.at(c));
  *shape = Shape(std::span<const std::int64_t>(dims));
  Values sums(static_cast<std::size_t>(shape->numel()));
  std::map<char, std::int64_t> at;
  std::int64_t total = 1;
  for (const auto& [letter, extent] : extents) total *= extent;
  for (std::int64_t p = 0; p < total; ++p) {
    std::int64_t rest = p;
    for (const auto& [letter, extent] : extents) {
      at[letter] = rest % extent;
      rest /= extent;
    }
    const auto place = [&](const std::string& letters, const Shape& s) {
      std::int64_t index = 0;
      for (std::size_t d = 0; d < letters.size(); ++d) {
        const std::int64_t extent = s[static_cast<int>(d)];
        index = index * extent + (extent == 1 ? 0 : at[letters[d]]);
      }
      return index;
    };
    double product = 1;
    for (std::size_t i = 0; i < parts.size(); ++i) product *= operands[i].at(place(parts[i], operands[i].shape()));
    sums[static_cast<std::size_t>(place(result, *shape))] += product;
  }
  return sums;
}

struct Sample {
  std::string inputs, result;
  std::vector<Shape> shapes;
};
const Sample kSamples[] = {
    {"i", "i", {{4}}},
    {"i", "", {{4}}},
    {"ij", "ji", {{2, 3}}},
    {"ii", "i", {{3, 3}}},
    {"ii", "", {{3, 3}}},
    {"iji", "ji", {{3, 2, 3}}},
    {"iiji", "j", {{2, 2, 5, 2}}},
    {"ijk", "k", {{2, 3, 4}}},
    {"i,i", "", {{5}, {5}}},
    {"i,j", "ij", {{2}, {3}}},
    {"i,i", "i", {{5}, {5}}},
    {"ij,jk", "ik", {{2, 3}, {3, 4}}},
    {"ij,kj", "ik", {{2, 3}, {4, 3}}},
    {"ji,jk", "ki", {{3, 2}, {3, 4}}},
    {"bij,bjk", "bik", {{2, 3, 4}, {2, 4, 5}}},
    {"bij,bkj", "bik", {{2, 3, 4}, {2, 5, 4}}},
    {"ibj,jbk", "bki", {{3, 2, 4}, {4, 2, 5}}},
    {"bqhd,bkhd", "bhqk", {{2, 3, 2, 4}, {2, 5, 2, 4}}},
    {"bhqk,bkhd", "bqhd", {{2, 2, 3, 5}, {2, 5, 2, 4}}},
    {"ijk,jil", "kl", {{2, 3, 4}, {3, 2, 5}}},
    {"ij,ij", "", {{2, 3}, {2, 3}}},
    {"ij,ik", "ijk", {{2, 3}, {2, 4}}},
    {"aij,j", "i", {{2, 3, 4}, {4}}},
    {"i,ijk,k", "j", {{2}, {2, 3, 4}, {4}}},
    {"ij,jk,kl,lm", "im", {{2, 3}, {3, 4}, {4, 2}, {2, 3}}},
    {"ij,jk,ki", "", {{2, 3}, {3, 4}, {4, 2}}},
    {"ii,ij", "j", {{3, 3}, {3, 2}}},
    {"ij,jk", "ik", {{2, 1}, {3, 4}}},  // an extent of 1 broadcasts
    {"bij,bjk", "bik", {{1, 3, 4}, {2, 4, 5}}},
    {"Aa,aB", "BA", {{2, 3}, {3, 4}}},
    {"ij,jk", "ik", {{0, 3}, {3, 4}}},
    {"ij,jk", "ik", {{2, 0}, {0, 4}}},
    {",ij", "ij", {Shape{}, {2, 3}}},
};

TEST(LinearAlgebra, EinsumIsTheSumOfProducts) {
  for (const Sample& s : kSamples) {
    std::vector<Tensor> operands;
    for (std::size_t i = 0; i < s.shapes.size(); ++i) operands.push_back(conformance::random(s.shapes[i], i + 1));
    Shape shape;
    const Values wanted = by_definition(s.inputs, s.result, operands, &shape);
    const std::string equation = s.inputs + " -> " + s.result;
    const auto f = [&](const std::vector<Variable>& x) { return einsum(equation, x); };
    std::vector<Variable> x;
    for (const Tensor& operand : operands) x.emplace_back(here(operand));
    const Variable y = f(x);
    ASSERT_EQ(y.shape(), shape) << equation;
    const Values got = values_of(y);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-13) << equation << ", element " << i;
    EXPECT_TRUE(first_derivatives(f, operands, 8).passed) << equation;
  }
}

TEST(LinearAlgebra, EinsumHasEllipsesAndImplicitResults) {
  const Variable a = random({2, 3, 4, 5}, 1), b = random({3, 5, 6}, 2);
  const auto equal = [](const Variable& x, const Variable& y) {
    EXPECT_EQ(x.shape(), y.shape());
    EXPECT_EQ(values_of(x), values_of(y));
  };
  equal(einsum("...ij,...jk->...ik", {a, b}), matmul(a, b));
  equal(einsum("...ij,...jk", {a, b}), matmul(a, b));
  equal(einsum("...ji", {a}), permute(a, {0, 1, 3, 2}));
  equal(einsum("i...->...i", {a}), permute(a, {1, 2, 3, 0}));
  equal(einsum("ba", {narrow(b, 0, 0, 1).value().reshape({5, 6})}),
        transpose(narrow(b, 0, 0, 1).value().reshape({5, 6})));
  EXPECT_EQ(einsum("...i->i", {a}).shape(), Shape{5});  // the result has no ellipsis: its axes are summed
  EXPECT_EQ(einsum("ij,jk", {random({2, 3}, 1), random({3, 4}, 2)}).shape(), (Shape{2, 4}));
}

TEST(LinearAlgebra, EinsumNamesTheLetter) {
  const Variable a = random({2, 3}, 1), b = random({4, 5}, 2), c = random({3, 4}, 3);
  const auto expect = [](auto&& f, std::vector<std::string> words) {
    const std::string text = error_of(f);
    for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text << " lacks " << word;
  };
  expect(
      [&] {
        einsum("ij,jk->ik", {a, b});
      },
      {"einsum: 'ij,jk->ik'", "letter 'j'", "3 in operand 1", "4 in operand 2"});
  expect([&] { einsum("ij,jk->iz", {a, c}); }, {"no operand", "letter 'z'"});
  expect([&] { einsum("ij->ii", {a}); }, {"letter 'i'", "twice"});
  expect([&] { einsum("ijk->i", {a}); }, {"operand 1", "3 letters and 2 axes"});
  expect([&] { einsum("ij,jk->ik", {a}); }, {"2 operands", "1 were given"});
  expect([&] { einsum("i1->i", {a}); }, {"'1'"});
  expect([&] { einsum("ij->i->j", {a}); }, {"'-'"});
  expect([&] { einsum("......ij", {a}); }, {"'...' twice"});
  expect([&] { einsum("ii->i", {a}); }, {"letter 'i'", "2 and 3"});
  expect([&] { einsum("ij->ij", {cast(a, DType::i64)}); }, {"i64", "floating"});
  expect([&] { einsum("ij->ij", {Variable()}); }, {"operand 1 is undefined"});
}

// ---- errors and NaN ----------------------------------------------------------------------------------------------

template <class F>
std::string data_error_of(F&& f) {
  try {
    f();
  } catch (const DataError& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

TEST(LinearAlgebra, MatricesWithoutAResultAreNamed) {
  const ModulePathScope path("encoder.whiten");
  const Values one = {1, 0, 0, 1}, singular = {1, 2, 2, 4}, indefinite = {1, 2, 2, 1};
  const auto batch = [&](const Values& bad) {
    Values all = one;
    all.insert(all.end(), bad.begin(), bad.end());
    return matrix(all, {2, 1, 2, 2});
  };
  const Variable b = random({2, 1, 2, 3}, 1);
  const auto expect = [](const std::string& text, std::vector<std::string> words) {
    words.insert(words.end(), {"[encoder.whiten]", "(1, 0) of the batch (2, 1)"});
    for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text << " lacks " << word;
  };
  expect(data_error_of([&] { solve(batch(singular), b); }), {"solve", "pivot 1 is 0"});
  expect(data_error_of([&] { inverse(batch(singular)); }), {"inverse", "pivot 1 is 0"});
  expect(data_error_of([&] { cholesky(batch(indefinite)); }), {"cholesky", "pivot 1 is not positive"});
  expect(data_error_of([&] { triangular_solve(batch({1, 2, 0, 0}), b); }), {"triangular_solve", "0 at position 1"});
  EXPECT_NE(data_error_of([&] { lstsq(batch(singular), b); }).find("column 1 depends on"), std::string::npos);
  for (const std::int64_t n :
       {std::int64_t{3}, std::int64_t{70}, std::int64_t{300}}) {  // the bad pivot is in the last block
    Tensor a = eye(n, n, DType::f32);
    a.mutable_data<float>()[n * n - 1] = -1;
    EXPECT_NE(data_error_of([&] { cholesky(here(a)); }).find(fmt::format("pivot {} ", n - 1)), std::string::npos) << n;
    a.mutable_data<float>()[n * n - 1] = 0;
    EXPECT_NE(data_error_of([&] { inverse(here(a)); }).find(fmt::format("pivot {} ", n - 1)), std::string::npos) << n;
  }
}

TEST(LinearAlgebra, NanGivesNan) {
  for (const double bad : {kNaN, std::numeric_limits<double>::infinity()})
    for (const std::int64_t n : {std::int64_t{4}, std::int64_t{90}})
      for (const bool late : {false, true}) {
        Tensor x = regular({n, n}, 1).value().to(Device::cpu()).clone();
        x.mutable_data<double>()[late ? n * n - 1 : 0] = bad;
        const Variable a = here(x), b = random({n, 2}, 2);
        const auto poisoned = [&](const Variable& y) { return std::isnan(largest(y)); };
        const std::string what = fmt::format("{} in {} x {}{}", bad, n, n, late ? ", last" : "");
        if (std::isnan(bad)) {
          EXPECT_TRUE(poisoned(cholesky(a))) << what;
          EXPECT_TRUE(poisoned(solve(a, b))) << what;
          EXPECT_TRUE(poisoned(inverse(a))) << what;
          EXPECT_TRUE(poisoned(lu_factor(a).lu)) << what;
          EXPECT_TRUE(poisoned(det(a))) << what;
          EXPECT_TRUE(poisoned(triangular_solve(a, b))) << what;
          EXPECT_TRUE(poisoned(qr(a).r)) << what;
          EXPECT_TRUE(poisoned(lstsq(a, b).solution)) << what;
        }
        EXPECT_TRUE(poisoned(matrix_exp(a))) << what;
        EXPECT_TRUE(poisoned(eigvalsh(a)) && poisoned(eigh(a).vectors)) << what;
        EXPECT_TRUE(poisoned(svdvals(a)) && poisoned(svd(a).u)) << what;
        EXPECT_TRUE(poisoned(pinv(a))) << what;
      }
}

TEST(LinearAlgebra, ANanOnTheWayToAPivotIsNoSingularMatrix) {
  const Variable a = matrix({0, 1, kNaN, 1}, {2, 2});
  EXPECT_TRUE(std::isnan(largest(inverse(a))));
}

TEST(LinearAlgebra, ShapesAreChecked) {
  const Variable wide = random({2, 3}, 1), vector = random({3}, 2), square = regular({3, 3}, 3);
  EXPECT_NE(error_of([&] { inverse(wide); }).find("wanted square matrices (…, n, n), got (2, 3)"), std::string::npos);
  EXPECT_NE(error_of([&] { svd(vector); }).find("wanted matrices"), std::string::npos);
  EXPECT_NE(error_of([&] { solve(square, random({4, 1}, 4)); }).find("got (3, 3) and (4, 1)"), std::string::npos);
  EXPECT_NE(error_of([&] { det(cast(square, DType::i64)); }).find("i64"), std::string::npos);
  EXPECT_NE(error_of([&] {
              const Variable x(random({3, 2}, 5), true);
              backward(sum(qr(x, QrMode::kComplete).q));
            }).find("use the reduced q"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              const Variable x(random({3, 2}, 5), true);
              backward(sum(svd(x).u));
            }).find("full_matrices = false"),
            std::string::npos);
}

// ---- values ------------------------------------------------------------------------------------------------------

TEST(LinearAlgebra, LargeMatricesAreFactored) {
  const std::int64_t n = 300;
  const Variable x = regular({n, n}, 7), a = matmul(x, x, {.transpose_b = true}), b = random({n, 90}, 8);
  const auto small = [&](const Variable& difference, double bound) { EXPECT_LT(largest(difference), bound); };
  for (const DType dtype : {DType::f64, DType::f32}) {
    // A backward stable factorization has a residual of a few roundings of |a|, which is about 6, times the root of n.
    const double bound = 200 * (dtype == DType::f64 ? 0x1p-53 : 0x1p-24);
    const Variable s = cast(a, dtype), g = cast(x, dtype), right = cast(b, dtype);
    const Variable l = cholesky(s);
    small(matmul(l, l, {.transpose_b = true}) - s, bound);
    EXPECT_EQ(largest(triu(l, 1)), 0);
    const auto [p, lower, upper] = lu(g);
    small(matmul(p, matmul(lower, upper)) - g, bound);
    small(matmul(g, solve(g, right)) - right, bound);
    small(matmul(s, cholesky_solve(right, l)) - right, 10 * bound);
    small(matmul(g, inverse(g)) - identity(n, n, dtype), bound);
    for (const bool transposed : {false, true}) {
      const Variable y = triangular_solve(l, right, {.upper = false, .transpose = transposed});
      small(matmul(l, y, {.transpose_a = transposed}) - right, bound);
      const Variable z = triangular_solve(transpose(l), right, {.upper = true, .transpose = transposed});
      small(matmul(l, z, {.transpose_a = !transposed}) - right, bound);
    }
    const auto [q, r] = qr(g);
    small(matmul(q, r) - g, bound);
    const auto [w, v] = eigh(s);
    small(matmul(v * unsqueeze(w, 0), v, {.transpose_b = true}) - s, 10 * bound);
    const auto [u, sv, vh] = svd(g);
    small(matmul(u * unsqueeze(sv, 0), vh) - g, bound);
  }
}

TEST(LinearAlgebra, BitsDoNotDependOnThreadsOrTheBatch) {
  const Variable x = regular({3, 200, 200}, 9), a = cast(matmul(x, x, {.transpose_b = true}), DType::f32);
  const Variable b = cast(random({3, 200, 70}, 10), DType::f32);
  const int before = num_threads();
  std::vector<Values> first;
  const bool on_cpu = tested_device() == Device::cpu();  // on a GPU, the functions are computed twice
  for (const int threads : on_cpu ? std::vector{1, 2, 3, 8} : std::vector{1, 2}) {
    set_num_threads(threads);
    const std::vector<Values> all{values_of(cholesky(a)), values_of(solve(a, b)), values_of(eigvalsh(a)),
                                  values_of(matrix_exp(a * 0.01))};
    if (threads == 1) first = all;
    EXPECT_EQ(all, first) << threads;
  }
  set_num_threads(before);
  EXPECT_EQ(values_of(cholesky(select(a, 0, 1))), values_of(select(cholesky(a), 0, 1)));
  EXPECT_EQ(values_of(solve(select(a, 0, 2), select(b, 0, 2))), values_of(select(solve(a, b), 0, 2)));
  EXPECT_EQ(values_of(matrix_exp(select(a, 0, 0))), values_of(select(matrix_exp(a), 0, 0)));
}

TEST(LinearAlgebra, ValuesAloneHaveTheSameBits) {
  for (const std::int64_t n : {7, 20}) {  // Eigen has one algorithm for small and one for large matrices
    const Tensor a = regular({2, n, n}, 11).value();
    const Variable trained(a, true);
    EXPECT_EQ(values_of(svdvals(a)), values_of(svdvals(trained)));
    EXPECT_EQ(values_of(svdvals(a)), values_of(svd(a, false).s));
    EXPECT_EQ(values_of(eigvalsh(a)), values_of(eigvalsh(trained)));
  }
}

TEST(LinearAlgebra, SignsFollowTheRule) {
  for (const std::uint64_t tag : {21, 22, 23}) {
    const Variable x = random({6, 6}, tag), v = eigh(x + transpose(x)).vectors, u = svd(x).u;
    for (const Variable& columns : {v, u}) {
      const Values all = values_of(transpose(columns));
      for (std::size_t j = 0; j < 6; ++j) {
        double most = 0;
        for (std::size_t i = 0; i < 6; ++i) most = std::max(most, std::abs(all[6 * j + i]));
        std::size_t i = 0;
        while (std::abs(all[6 * j + i]) < 0.99 * most) ++i;
        EXPECT_GT(all[6 * j + i], 0);
      }
    }
    for (const double d : values_of(diagonal(qr(x).r))) EXPECT_GE(d, 0);
  }
  // The elements of a vector have equal magnitudes: rounding must not decide its sign.
  const Values w = values_of(eigh(matrix({2, 1, 1, 2}, {2, 2})).vectors);
  EXPECT_GT(w[0], 0);
  EXPECT_LT(w[2], 0);
  EXPECT_GT(w[1], 0);
}

TEST(LinearAlgebra, TheGradientOfDetIsFiniteForSingularMatrices) {
  const auto gradient = [](const Values& values, std::int64_t n) {
    const Variable x(here(Tensor::from(values, Shape{n, n})), true);
    backward(det(x));
    return x.grad().to_vector<double>();
  };
  EXPECT_EQ(gradient({0}, 1), Values{1});
  const Values of_rank_1 = gradient({1, 2, 2, 4}, 2), cofactors{4, -2, -2, 1};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(of_rank_1[i], cofactors[i], 1e-14);
  for (const double g : gradient({0, 0, 0, 0}, 2)) EXPECT_NEAR(g, 0, 1e-14);
  const Values of_rank_2 = gradient({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3), wanted{-3, 6, -3, 6, -12, 6, -3, 6, -3};
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(of_rank_2[i], wanted[i], 1e-13);
}

TEST(LinearAlgebra, OnlyOneTriangleIsRead) {
  const Variable a = matrix({4, kNaN, 1, 3}, {2, 2});
  EXPECT_EQ(values_of(cholesky(a)), values_of(cholesky(matrix({4, 1, 1, 3}, {2, 2}))));
  EXPECT_EQ(values_of(eigvalsh(a)), values_of(eigvalsh(matrix({4, 1, 1, 3}, {2, 2}))));
  EXPECT_FALSE(std::isnan(largest(triangular_solve(a, random({2, 1}, 1), {.upper = false}))));
}

TEST(LinearAlgebra, ThePolicyDoesNotLowerThePrecision) {
  const Variable a = cast(regular({5, 5}, 31), DType::bf16), b = cast(random({5, 2}, 32), DType::bf16);
  const PolicyScope scope(PrecisionPolicy{.name = "bf16", .low = DType::bf16});
  for (const Variable& y : {inverse(a), solve(a, b), det(a), qr(a).q, svdvals(a), lstsq(a, b).solution, pinv(a),
                            matrix_power(a, 3), matrix_exp(a), slogdet(a).logabsdet, cond(a)})
    EXPECT_EQ(y.dtype(), DType::f32);
  const Variable wide = cast(a, DType::f64);
  EXPECT_LT(largest(cast(matrix_power(a, 3), DType::f64) - matrix_power(wide, 3)), 1e-5);
  EXPECT_LT(largest(cast(lstsq(a, b).solution, DType::f64) - lstsq(wide, cast(b, DType::f64)).solution), 1e-5);
}

/// Determinants are polynomials: they have derivatives of every order everywhere.
TEST(LinearAlgebra, DetHasSecondDerivativesAtSingularMatrices) {
  using In = const std::vector<Variable>&;
  const Tensor regular_4 = regular({4, 4}, 51).value();
  const auto of_rank = [&](std::int64_t rank) {  // the product of `rank` columns and `rank` rows
    return matmul(narrow(Variable(regular_4), 1, 0, rank), narrow(Variable(random({4, 4}, 52)), 0, 0, rank)).value();
  };
  const auto expect = [](const std::string& name, const Tensor& a) {
    const GradcheckResult second = second_derivatives([](In x) { return det(x[0]); }, {a});
    EXPECT_TRUE(second.passed) << name << ": " << second.message;
    EXPECT_GT(second.checked, 0);
  };
  for (std::int64_t rank = 1; rank < 4; ++rank) expect(fmt::format("rank {}", rank), of_rank(rank));
  for (std::int64_t n = 1; n < 5; ++n) expect(fmt::format("zeros {}", n), Tensor::zeros(Shape{n, n}, DType::f64));
  expect("a batch of all ranks", stack({Variable(regular_4), of_rank(3), of_rank(2), of_rank(1),
                                        Variable(here(Tensor::zeros({4, 4}, DType::f64)))},
                                       0)
                                     .value());
  Tensor nearly = of_rank(3).to(Device::cpu()).clone();
  nearly.mutable_data<double>()[0] += 1e-9;
  expect("nearly singular", nearly);
  // The pivots differ by a factor of 1365, the singular values only by 683.
  expect("small pivots", matrix({0.75 / 1024, -0.5, 0.75 / 1024, 0.5}, {2, 2}).value());
}

TEST(LinearAlgebra, DetHasThirdDerivativesAtZero) {
  Variable t(here(Tensor::from(Values{0}, Shape{1, 1})), true);
  Variable y = det(t * identity(3, 3, DType::f64));
  for (int order = 0; order < 3; ++order) y = grad(sum(y), t, {.create_graph = true});
  EXPECT_NEAR(y.item(), 6, 1e-9);  // the third derivative of t^3
  // In f32, at a matrix of rank 2: the second derivatives of a 3 x 3 determinant are its elements, with signs.
  const Variable a(here(Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3})), true);
  const Variable g = grad(det(a), a, {.create_graph = true});
  const Tensor row = grad(narrow(reshape(g, {9}), 0, 0, 1), a, {})
                         .value()
                         .to(Device::cpu());  // the gradient of the cofactor a4 a8 - a5 a7
  const float wanted[] = {0, 0, 0, 0, 9, -8, 0, -6, 5};
  // Differences of products up to 72; each may be off by 16 roundings in f32, because det is computed by singular
  // values.
  for (std::int64_t i = 0; i < 9; ++i) EXPECT_NEAR(row.at(i), wanted[i], 72 * 16 * 0x1p-24) << i;
}

/// Compares first and second derivatives of functions of several ops with finite differences.
TEST(LinearAlgebra, ComposedFunctionsHaveDerivatives) {
  using In = const std::vector<Variable>&;
  const Tensor square = regular({4, 4}, 41).value(), tall = regular({6, 3}, 42).value(),
               wide = regular({3, 6}, 43).value(), b = random({4, 2}, 44), v = random({4}, 45);
  const auto expect = [](const char* name, std::function<Variable(In)> f, const std::vector<Tensor>& inputs) {
    const GradcheckResult first = first_derivatives(f, inputs), second = second_derivatives(f, inputs);
    EXPECT_TRUE(first.passed) << name << ": " << first.message;
    EXPECT_TRUE(second.passed) << name << ", second: " << second.message;
  };
  expect("slogdet", [](In x) { return slogdet(x[0]).logabsdet; }, {square});
  expect("lu", [](In x) { return lu(x[0]).l + lu(x[0]).u * 2.0; }, {square});
  expect("lstsq tall", [](In x) { return lstsq(x[0], x[1]).solution; }, {tall, random({6, 2}, 46)});
  expect("lstsq wide", [](In x) { return lstsq(x[0], x[1]).solution; }, {wide, random({3}, 47)});
  expect("residuals", [](In x) { return lstsq(x[0], x[1]).residuals; }, {tall, random({6, 2}, 46)});
  expect("cholesky_solve",
         [](In x) {
           const Variable a = matmul(x[0], x[0], {.transpose_b = true});
           return cholesky_solve(x[1], cholesky(a, true), true);
         },
         {square, b});
  expect("solve vector", [](In x) { return solve(x[0], x[1]); }, {square, v});
  expect("solve from the right",
         [](In x) { return triangular_solve(x[0], transpose(x[1]), {.upper = false, .left = false}); }, {square, b});
  expect("matrix_power", [](In x) { return matrix_power(x[0], 5); }, {square});
  expect("negative power", [](In x) { return matrix_power(x[0], -2); }, {square});
  expect("nuclear norm", [](In x) { return matrix_norm(x[0], MatrixNorm::kNuclear); }, {tall});
  expect("cond", [](In x) { return cond(x[0]); }, {square});
  expect("bilinear", [](In x) { return bilinear(x[0], x[0], x[1]); }, {b, random({3, 2, 2}, 48)});
  expect("cdist", [](In x) { return cdist(x[0], x[1]); }, {b, random({3, 2}, 49)});
  expect("svd",
         [](In x) {
           const auto [u, s, vh] = svd(x[0], false);
           return matmul(u * unsqueeze(sqrt(s), 0), vh);
         },
         {tall});
}

}  // namespace
}  // namespace binade::conformance
