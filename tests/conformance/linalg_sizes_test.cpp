#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "binade/autograd/functions.h"
#include "binade/core/error.h"
#include "binade/core/make.h"
#include "tests/conformance/case.h"
#include "tests/tested_device.h"

// Decompositions of many sizes satisfy their definitions: empty matrices and batches, channel slices, and matrices with
// more than 128 rows or columns, which cuSOLVER factors on a GPU. A matrix has the same bits alone and in a batch.
namespace binade::conformance {
namespace {

using Values = std::vector<double>;

Values values_of(const Variable& x) { return x.value().to_vector<double>(); }
Variable identity(std::int64_t n, DType dtype) { return eye(n, n, dtype, tested_device()); }
double epsilon(DType dtype) { return dtype == DType::f64 ? 0x1p-53 : 0x1p-24; }

/// Returns random matrices plus 2 on the diagonal, with condition numbers below 10. `slice`: as a channel slice.
Variable regular(const Shape& shape, std::uint64_t tag, DType dtype, bool slice = false) {
  const double high = 0.5 / std::sqrt(static_cast<double>(std::max<std::int64_t>(shape[-1], 1)));
  Tensor x = slice ? random_slice(shape, tag, -high, high) : random(shape, tag, -high, high);
  const Tensor diagonal = eye(shape[-2], shape[-1], DType::f64);
  const Tensor sum = (Variable(x) + 2.0 * Variable(diagonal)).value();
  if (slice)
    x.copy_from(sum);
  else
    x = sum;
  return variable_of(in_dtype(x, dtype), false);
}

/// Expects x = y. Tolerance: `roundings` roundings of numbers up to 4 for each of the n terms that a product adds.
void expect_near(const Variable& x, const Variable& y, std::int64_t n, const std::string& what, double roundings = 8) {
  ASSERT_EQ(x.shape(), y.shape()) << what;
  const double bound = 4 * roundings * static_cast<double>(n) * epsilon(x.dtype());
  const Values a = values_of(x), b = values_of(y);
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], bound) << what << ", element " << i;
}

Variable transposed_product(const Variable& a) { return matmul(a, a, {.transpose_a = true}); }

/// Checks that each decomposition of the square matrices `a` satisfies its definition.
void check_square_matrices(const Variable& a, const std::string& what) {
  const std::int64_t n = a.shape()[-1];
  const Variable zeros = a * 0.0, ones = zeros + identity(n, a.dtype());
  const Variable positive = matmul(a, a, {.transpose_b = true}), l = cholesky(positive);
  expect_near(matmul(l, l, {.transpose_b = true}), positive, n, what + ": cholesky", 32);
  EXPECT_EQ(values_of(triu(l, 1)), values_of(zeros)) << what;
  const auto [p, lower, upper] = lu(a);
  expect_near(matmul(p, matmul(lower, upper)), a, n, what + ": lu");
  expect_near(matmul(a, solve(a, ones)), ones, n, what + ": solve", 32);
  expect_near(matmul(inverse(a), a), ones, n, what + ": inverse", 32);
  for (const bool up : {false, true}) {
    const Variable triangle = up ? triu(a, 0) : tril(a, 0);
    expect_near(matmul(triangle, triangular_solve(a, ones, {.upper = up})), ones, n, what + ": triangular_solve", 32);
  }
  const Variable symmetric = (a + transpose(a)) * 0.5;
  const auto [w, v] = eigh(symmetric);
  expect_near(matmul(v * unsqueeze(w, -2), v, {.transpose_b = true}), symmetric, n, what + ": eigh");
  expect_near(transposed_product(v), ones, n, what + ": eigenvectors");
  const Values values = values_of(w);
  for (std::size_t i = 1; i < values.size(); ++i)
    EXPECT_TRUE(i % static_cast<std::size_t>(n) == 0 || values[i - 1] <= values[i]) << what;
}

/// Checks that the orthogonal decompositions of the matrices `a`, of any shape, satisfy their definitions.
void check_any_matrices(const Variable& a, const std::string& what) {
  const std::int64_t rows = a.shape()[-2], columns = a.shape()[-1], k = std::min(rows, columns);
  const std::int64_t n = std::max(rows, columns);
  for (const QrMode mode : {QrMode::kReduced, QrMode::kComplete}) {
    const auto [q, r] = qr(a, mode);
    const std::int64_t width = mode == QrMode::kComplete ? rows : k;
    EXPECT_EQ(q.shape()[-1], width) << what;
    expect_near(matmul(q, r), a, n, what + ": qr");
    const Variable squares = transposed_product(q);
    expect_near(squares, squares * 0.0 + identity(width, a.dtype()), n, what + ": q");
    EXPECT_EQ(values_of(tril(r, -1)), values_of(r * 0.0)) << what;
    for (const double d : values_of(diagonal(r, 0, -2, -1))) EXPECT_GE(d, 0) << what;
  }
  for (const bool full : {false, true}) {
    const auto [u, s, vh] = svd(a, full);
    expect_near(matmul(narrow(u, -1, 0, k) * unsqueeze(s, -2), narrow(vh, -2, 0, k)), a, n, what + ": svd");
    const Variable left = transposed_product(u), right = matmul(vh, vh, {.transpose_b = true});
    EXPECT_EQ(left.shape()[-1], full ? rows : k) << what;
    expect_near(left, left * 0.0 + identity(left.shape()[-1], a.dtype()), n, what + ": u");
    expect_near(right, right * 0.0 + identity(right.shape()[-1], a.dtype()), n, what + ": vh");
    const Values values = values_of(s);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_GE(values[i], 0) << what;
      EXPECT_TRUE(i % static_cast<std::size_t>(k) == 0 || values[i - 1] >= values[i]) << what;
    }
  }
}

TEST(LinearAlgebraSizes, DefineEachDecomposition) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const std::int64_t n : {0, 1, 2, 33})
      for (const std::int64_t batch : {0, 1, 17}) {
        if (n == 33 && batch == 17 && dtype == DType::f32) continue;  // takes too long
        const std::string what = fmt::format("{} of {} x {} in {}", batch, n, n, name_of(dtype));
        const Variable a = regular({batch, n, n}, 3, dtype);
        check_square_matrices(a, what);
        check_any_matrices(a, what);
      }
}

TEST(LinearAlgebraSizes, AreNotSquare) {
  for (const Shape& shape : {Shape{2, 5, 9}, Shape{2, 9, 5}, Shape{1, 7}, Shape{7, 1}, Shape{3, 33, 2}, Shape{40, 33}})
    for (const DType dtype : {DType::f32, DType::f64})
      check_any_matrices(regular(shape, 5, dtype), fmt::format("{} in {}", shape, name_of(dtype)));
}

TEST(LinearAlgebraSizes, BeyondOneBlockOfAGpu) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Variable a = regular({2, 140, 140}, 7, dtype);
    check_square_matrices(a, fmt::format("140 x 140 in {}", name_of(dtype)));
    check_any_matrices(regular({140, 133}, 8, dtype), "tall");
    check_any_matrices(regular({20, 140}, 9, dtype), "wide");
    const auto [p, l, u] = lu(regular({131, 140}, 10, dtype));
    expect_near(matmul(p, matmul(l, u)), regular({131, 140}, 10, dtype), 140, "wide lu");
  }
}

/// The results of all decompositions of a matrix, in a fixed order.
std::vector<Values> results_of(const Variable& a) {
  const Variable positive = matmul(a, a, {.transpose_b = true});
  const auto factors = lu_factor(a);
  const auto [q, r] = qr(a);
  const auto [w, v] = eigh(positive);
  const auto [u, s, vh] = svd(a);
  std::vector<Values> all;
  for (const Variable& y : {cholesky(positive), factors.lu, inverse(a), triangular_solve(a, a), q, r, w, v, u, s, vh})
    all.push_back(values_of(y));
  return all;
}

TEST(LinearAlgebraSizes, BitsDoNotDependOnTheBatchOrItsPlaceInMemory) {
  for (const std::int64_t n : {9, 130}) {
    const std::int64_t count = n == 9 ? 17 : 3;
    const Variable a = regular({count, n, n}, 11, DType::f32), slice = regular({count, n, n}, 11, DType::f32, true);
    EXPECT_FALSE(slice.value().contiguous());
    EXPECT_EQ(results_of(slice), results_of(slice.value().contiguous_copy())) << n;
    const std::vector<Values> all = results_of(a);
    for (const std::int64_t i : {std::int64_t{0}, count - 1}) {
      const std::vector<Values> one = results_of(select(a, 0, i));
      for (std::size_t k = 0; k < all.size(); ++k) {
        const auto size = one[k].size();
        const auto begin = all[k].begin() + static_cast<std::ptrdiff_t>(size * static_cast<std::size_t>(i));
        EXPECT_EQ(one[k], Values(begin, begin + static_cast<std::ptrdiff_t>(size))) << n << ", result " << k;
      }
    }
  }
}

TEST(LinearAlgebraSizes, LargeMatricesWithoutAResult) {
  const std::int64_t n = 150;
  Tensor host = eye(n, n, DType::f64);
  double* const x = host.mutable_data<double>();
  x[n * 100 + 100] = 0;  // singular; lu() must still compute all factors
  const Tensor a = host.to(tested_device());
  EXPECT_THROW(inverse(a), DataError);
  EXPECT_EQ(values_of(det(a)), Values{0});
  const auto [p, l, u] = lu(a);
  EXPECT_EQ(values_of(matmul(p, matmul(l, u))), values_of(Variable(a)));
  for (const double odd : {std::nan(""), HUGE_VAL}) {
    x[0] = odd;
    const Tensor b = host.to(tested_device());
    const auto first_of = [](const Variable& y) { return values_of(y)[0]; };
    EXPECT_TRUE(std::isnan(first_of(eigh(b).values))) << odd;
    EXPECT_TRUE(std::isnan(first_of(svd(b).s))) << odd;
    EXPECT_FALSE(std::isfinite(first_of(qr(b).r))) << odd;
    EXPECT_FALSE(std::isfinite(first_of(lu(b).u))) << odd;
    x[n * 100 + 100] = 1;
    EXPECT_FALSE(std::isfinite(first_of(cholesky(host.to(tested_device()))))) << odd;
    x[n * 100 + 100] = 0;
  }
  EXPECT_THROW(cholesky(a), DataError);
}

TEST(LinearAlgebraSizes, RankDeficientMatricesHaveOrthonormalVectors) {
  for (const std::int64_t n : {6, 140})
    for (const std::int64_t rank : {0, 1, 3}) {
      const Variable a = matmul(regular({n, rank}, 13, DType::f64), regular({rank, n + 2}, 14, DType::f64));
      check_any_matrices(a, fmt::format("{} x {} of rank {}", n, n + 2, rank));
      const Values s = values_of(svdvals(a));
      for (std::size_t i = static_cast<std::size_t>(rank); i < s.size(); ++i) EXPECT_LT(s[i], 1e-13) << rank;
    }
}

TEST(LinearAlgebraSizes, LargeAndSmallNumbersKeepTheirDigits) {
  const Variable a = regular({2, 12, 12}, 15, DType::f64), symmetric = a + transpose(a);
  for (const double scale : {0x1p-700, 0x1p700}) {
    EXPECT_EQ(values_of(svdvals(a * scale) / scale), values_of(svdvals(a))) << scale;
    EXPECT_EQ(values_of(eigvalsh(symmetric * scale) / scale), values_of(eigvalsh(symmetric))) << scale;
  }
}

}  // namespace
}  // namespace binade::conformance
