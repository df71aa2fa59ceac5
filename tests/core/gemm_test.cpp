#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/observation.h"
#include "binade/core/parallel.h"
#include "tests/core/fenced.h"

namespace binade::cpu {
namespace {

using test::Fenced;

struct Case {
  std::int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
};

const std::vector<Case> kCases = {{1, 1, 1},
                                  {0, 3, 3},
                                  {3, 0, 3},
                                  {5, 4, 0},
                                  {1, 1, 300},
                                  {17, 33, 65},
                                  {17, 33, 65, false, true},
                                  {17, 33, 65, true, false},
                                  {31, 16, 7, true, true},
                                  {64, 64, 64, false, true},
                                  {113, 1, 3},
                                  {1, 130, 40, false, true},
                                  {40, 37, 801, true, false},
                                  {130, 70, 390},
                                  {28, 33, 64, true, false},
                                  {9, 40, 5001, true, false},
                                  {3, 5, 4097, false, true}};

template <class T>
class Problem {
 public:
  Problem(const Case& shape, DType out_type, unsigned seed)
      : a(values(shape.m * shape.k, seed)), b(values(shape.k * shape.n, seed + 1)) {
    args.m = shape.m;
    args.n = shape.n;
    args.k = shape.k;
    args.in = kDTypeOf<T>;
    args.out = out_type;
    args.a = a.data();
    args.a_row = shape.transpose_a ? 1 : shape.k;
    args.a_col = shape.transpose_a ? shape.m : 1;
    args.b = b.data();
    args.b_row = shape.transpose_b ? 1 : shape.n;
    args.b_col = shape.transpose_b ? shape.k : 1;
    args.c_row = shape.n;
  }

  /// The product a b, computed by Eigen in long double, and the product of the magnitudes, for the error bound.
  struct Reference {
    Eigen::MatrixX<long double> sums, magnitudes;
    double sum(std::int64_t i, std::int64_t j) const { return static_cast<double>(sums(i, j)); }
    double magnitude(std::int64_t i, std::int64_t j) const { return static_cast<double>(magnitudes(i, j)); }
  };
  Reference reference() const {
    const auto matrix = [](const Fenced<T>& from, std::int64_t rows, std::int64_t cols, std::int64_t row,
                           std::int64_t col) {
      return Eigen::MatrixX<long double>::NullaryExpr(rows, cols,
                                                      [&from, row, col](Eigen::Index r, Eigen::Index c) {
                                                        return static_cast<long double>(
                                                            load(from[static_cast<std::size_t>(r * row + c * col)]));
                                                      })
          .eval();
    };
    const auto left = matrix(a, args.m, args.k, args.a_row, args.a_col);
    const auto right = matrix(b, args.k, args.n, args.b_row, args.b_col);
    return {left * right, left.cwiseAbs() * right.cwiseAbs()};
  }

  Fenced<T> a, b;
  GemmArgs args;

 private:
  static Fenced<T> values(std::int64_t count, unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    Fenced<T> x(static_cast<std::size_t>(count));
    for (T& v : x) v = store<T>(uniform(generator));
    return x;
  }
};

/// Returns half a unit in the last place of `x` in dtype `d`.
double half_ulp(double x, DType d) {
  const DTypeRange range = range_of(d);
  const double magnitude = std::max(std::abs(x), range.smallest_normal);
  return std::ldexp(0.5, std::ilogb(magnitude) - range.mantissa_bits);
}

class EachLevel : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    before_ = level().isa;
    select_isa(GetParam());
  }
  void TearDown() override { select_isa(before_); }

 private:
  std::string_view before_;
};

using Gemm = EachLevel;
INSTANTIATE_TEST_SUITE_P(Isa, Gemm, ::testing::ValuesIn(isa_levels()),
                         [](const auto& param_info) { return std::string(param_info.param); });

template <class T, class Out>
void expect_within_bound(const Case& shape) {
  SCOPED_TRACE(fmt::format("m {} n {} k {} {}{} {} -> {}", shape.m, shape.n, shape.k, shape.transpose_a ? "T" : "N",
                           shape.transpose_b ? "T" : "N", name_of(kDTypeOf<T>), name_of(kDTypeOf<Out>)));
  Problem<T> problem(shape, kDTypeOf<Out>, 7);
  Fenced<Out> c(static_cast<std::size_t>(shape.m * shape.n));
  problem.args.c = c.data();
  level().gemm.gemm(problem.args);
  const auto reference = problem.reference();
  const double unit = std::is_same_v<T, double> ? 0x1p-53 : 0x1p-24;
  for (std::int64_t i = 0; i < shape.m; ++i)
    for (std::int64_t j = 0; j < shape.n; ++j) {
      const double sum = reference.sum(i, j), magnitude = reference.magnitude(i, j);
      const double got = static_cast<double>(load(c[static_cast<std::size_t>(i * shape.n + j)]));
      const double bound = (static_cast<double>(shape.k) + 1) * unit * magnitude;
      const double rounding = std::is_same_v<Out, Compute<T>> ? 0 : half_ulp(std::abs(sum) + bound, kDTypeOf<Out>);
      ASSERT_LE(std::abs(got - sum), bound + rounding) << "at " << i << ", " << j;
    }
}

TEST_P(Gemm, StaysWithinTheErrorBound) {
  for (const Case& shape : kCases) {
    expect_within_bound<float, float>(shape);
    expect_within_bound<float, float16>(shape);
    expect_within_bound<bfloat16, float>(shape);
    expect_within_bound<bfloat16, bfloat16>(shape);
    expect_within_bound<float16, float>(shape);
    expect_within_bound<float16, float16>(shape);
    expect_within_bound<double, double>(shape);
  }
}

TEST_P(Gemm, GivesTheSameBitsForEveryNumberOfThreads) {
  for (const Case& shape : {Case{200, 300, 500}, Case{9, 40, 5001, true, false}, Case{64, 64, 64, false, true}}) {
    Problem<float> problem(shape, DType::f32, 11);
    Fenced<float> first;
    for (int threads : {1, 2, 3, 4, 8}) {
      set_num_threads(threads);
      Fenced<float> c(static_cast<std::size_t>(shape.m * shape.n));
      problem.args.c = c.data();
      level().gemm.gemm(problem.args);
      if (first.empty()) first = c;
      EXPECT_EQ(first, c) << threads << " threads";
    }
  }
  set_num_threads(0);
}

TEST_P(Gemm, AddsToExistingValues) {
  for (const Case& shape : {Case{20, 37, 50}, Case{9, 40, 5001, true, false}, Case{3, 3, 0}}) {
    Problem<float> problem(shape, DType::f32, 3);
    Fenced<float> plain(static_cast<std::size_t>(shape.m * shape.n)), sum(plain.size(), 2.5f);
    problem.args.c = plain.data();
    level().gemm.gemm(problem.args);
    problem.args.c = sum.data();
    problem.args.accumulate = true;
    level().gemm.gemm(problem.args);
    for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], plain[i] + 2.5f, 1e-4f * (1 + std::abs(plain[i])));
  }
}

TEST_P(Gemm, AppliesBiasAndActivation) {
  for (Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu, Activation::kGeluTanh})
    for (const Case& shape : {Case{19, 35, 40}, Case{6, 50, 900, false, true}, Case{9, 40, 5001, true, false}}) {
      Problem<float> problem(shape, DType::f32, 5);
      Fenced<float> bias(static_cast<std::size_t>(shape.n)), c(static_cast<std::size_t>(shape.m * shape.n)),
          z(c.size());
      for (std::size_t j = 0; j < bias.size(); ++j) bias[j] = 0.1f * static_cast<float>(j) - 1;
      problem.args.bias = bias.data();
      problem.args.activation = activation;
      problem.args.c = c.data();
      problem.args.pre_activation = z.data();
      level().gemm.gemm(problem.args);
      const auto reference = problem.reference();
      for (std::int64_t i = 0; i < shape.m; ++i)
        for (std::int64_t j = 0; j < shape.n; ++j) {
          const auto at = static_cast<std::size_t>(i * shape.n + j);
          const double sum = reference.sum(i, j), magnitude = reference.magnitude(i, j);
          const double x = sum + static_cast<double>(bias[static_cast<std::size_t>(j)]);
          EXPECT_NEAR(z[at], x, 0x1p-24 * static_cast<double>(shape.k + 2) * (magnitude + 4));
          const double v = static_cast<double>(z[at]);
          double y = v;
          if (activation == Activation::kRelu) y = std::max(v, 0.0);
          if (activation == Activation::kGelu) y = 0.5 * v * std::erfc(-v / std::sqrt(2.0));
          if (activation == Activation::kGeluTanh)
            y = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
          EXPECT_NEAR(c[at], y, 4e-6 * std::max(1.0, std::abs(y)));
        }
    }
}

/// Expects that a product that is fused with an activation derivative returns the derivative times the unrounded sum.
template <class T>
void expect_derivative(const Case& shape, Activation derivative_of) {
  const auto count = static_cast<std::size_t>(shape.m * shape.n);
  Problem<T> problem(shape, DType::f32, 5);
  Fenced<float> sums(count), wanted(count), wide(count);
  Fenced<T> z(count), y(count);
  for (std::size_t i = 0; i < count; ++i) {
    z[i] = store<T>(0.05f * static_cast<float>(i % 97) - 2);
    wide[i] = load(z[i]);
  }
  const auto& gemm = level().gemm;
  problem.args.c = sums.data();
  gemm.gemm(problem.args);
  gemm.activation_backward(
      {derivative_of, DType::f32, wide.data(), sums.data(), wanted.data(), shape.m, shape.n, nullptr});
  problem.args.out = kDTypeOf<T>;
  problem.args.c = y.data();
  problem.args.derivative_of = derivative_of;
  problem.args.derivative_at = z.data();
  gemm.gemm(problem.args);
  const bool coarse = std::is_same_v<T, bfloat16> &&
                      derivative_of != Activation::kRelu;  // such derivatives are accurate to 2^-15 before rounding
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_NEAR(load(y[i]), load(store<T>(wanted[i])),
                coarse ? 0x1p-7 * std::abs(wanted[i]) + 0x1p-15 * std::abs(sums[i]) : 0)
        << i;
}

TEST_P(Gemm, MultipliesSumsByAnActivationDerivative) {
  for (const Activation derivative_of : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh})
    for (const Case& shape : kCases) {
      expect_derivative<float>(shape, derivative_of);
      expect_derivative<float16>(shape, derivative_of);
      expect_derivative<bfloat16>(shape, derivative_of);
    }
}

/// For all bf16 values z, the derivative has an error of at most 2^-15 before it is rounded once.
TEST_P(Gemm, DerivativesAreAccurateForEveryBf16) {
  Fenced<bfloat16> z(1 << 16), gy(z.size(), bfloat16::from_float(1)), gz(z.size());
  for (std::uint32_t bits = 0; bits < 1 << 16; ++bits) z[bits].bits = static_cast<std::uint16_t>(bits);
  for (const Activation derivative_of : {Activation::kGelu, Activation::kGeluTanh}) {
    level().gemm.activation_backward({derivative_of, DType::bf16, z.data(), gy.data(), gz.data(), 1, 1 << 16, nullptr});
    for (std::size_t i = 0; i < z.size(); ++i) {
      const double x = static_cast<double>(load(z[i]));
      ASSERT_EQ(std::isnan(load(gz[i])), std::isnan(x)) << x;
      if (!std::isfinite(x)) continue;
      const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), gate = 1 / (1 + std::exp(-2 * u));
      const double wanted = derivative_of == Activation::kGelu
                                ? 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI)
                                : gate + (std::abs(x) > 40 ? 0.0
                                                           : 2 * x * gate * (1 - gate) * std::sqrt(2 / M_PI) *
                                                                 (1 + 3 * 0.044715 * x * x));
      ASSERT_NEAR(static_cast<double>(load(gz[i])), wanted, 0x1p-8 * std::abs(wanted) + 0x1p-15) << x;
    }
  }
}

/// The y that gemm() stores equals the activation of the z that it stores. y has the same bits if z is not requested.
/// Some sums are beyond the range of T.
template <class T>
void expect_made_of_z(const Case& shape, Activation activation) {
  SCOPED_TRACE(fmt::format("m {} n {} k {} {}", shape.m, shape.n, shape.k, name_of(kDTypeOf<T>)));
  const auto count = static_cast<std::size_t>(shape.m * shape.n);
  Problem<T> problem(shape, kDTypeOf<T>, 5);
  const float far = kDTypeOf<T> == DType::f16 ? 1e5f : 3.4e38f;
  Fenced<float> bias(static_cast<std::size_t>(shape.n));
  for (std::size_t j = 0; j < bias.size(); ++j) bias[j] = j % 7 == 5 ? far : j % 7 == 6 ? -far : 0;
  Fenced<T> y(count), z(count), alone(count), again(count);
  const auto& gemm = level().gemm;
  problem.args.bias = bias.data();
  problem.args.activation = activation;
  const auto seen = [&](Fenced<T>& to) {
    ObservationScope scope;
    problem.args.c = to.data();
    gemm.gemm(problem.args);
    return scope.take().low;
  };
  const std::uint32_t without = seen(alone);
  problem.args.pre_activation = z.data();
  const std::uint32_t with = seen(y);
  gemm.activate({activation, kDTypeOf<T>, z.data(), again.data(), shape.m * shape.n});
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(y[i].bits, again[i].bits) << i;
    ASSERT_EQ(y[i].bits, alone[i].bits) << i;
    const float of = load(z[i]), got = load(y[i]);
    if (std::isinf(of)) {
      ASSERT_TRUE(of > 0 && got == of) << of << " at " << i;
    } else {
      const double v = static_cast<double>(of);
      const double exact = activation == Activation::kGelu
                               ? 0.5 * v * std::erfc(-v / std::sqrt(2.0))
                               : v / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      ASSERT_NEAR(got, exact, 1.15 * half_ulp(exact, kDTypeOf<T>))
          << i;  // GELU has at least 12 correct bits before rounding
    }
  }
  if (shape.n > 5 && count > 0) {
    EXPECT_GE(with, overflow_word(kDTypeOf<T>));
    EXPECT_LT(with, 0x7f800000u) << "how far beyond";
    EXPECT_EQ(without, with);
  }
}

TEST_P(Gemm, AGeluIn16BitsReadsTheRoundedSum) {
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh})
    for (const Case& shape : kCases) {
      expect_made_of_z<float16>(shape, activation);
      expect_made_of_z<bfloat16>(shape, activation);
    }
}

TEST_P(Gemm, PropagatesNonFiniteValues) {
  Problem<float> problem({4, 40, 20}, DType::f32, 5);
  problem.a[20] = std::numeric_limits<float>::quiet_NaN();  // row 1
  problem.a[40] = std::numeric_limits<float>::infinity();   // row 2
  Fenced<float> c(160);
  problem.args.c = c.data();
  problem.args.activation = Activation::kRelu;
  level().gemm.gemm(problem.args);
  for (std::size_t j = 0; j < 40; ++j) {
    EXPECT_TRUE(std::isfinite(c[j]) && std::isfinite(c[120 + j]));
    EXPECT_TRUE(std::isnan(c[40 + j]));
    EXPECT_TRUE(c[80 + j] == 0 || std::isinf(c[80 + j]));
  }
}

TEST_P(Gemm, OverflowsInF16AsATensorCoreDoes) {
  // Products and sums are f32: 300 * 300 * 4 overflows f16 only when the result is stored.
  Fenced<float16> a(4, float16::from_float(300)), b(4, float16::from_float(300));
  float16 half;
  float wide = 0;
  GemmArgs args{.m = 1,
                .n = 1,
                .k = 4,
                .in = DType::f16,
                .out = DType::f16,
                .a = a.data(),
                .b = b.data(),
                .b_row = 1,
                .c = &half};
  level().gemm.gemm(args);
  EXPECT_EQ(half.bits, 0x7c00);
  args.out = DType::f32;
  args.c = &wide;
  level().gemm.gemm(args);
  EXPECT_EQ(wide, 360000.0f);
}

TEST_P(Gemm, RunsBatchesOfProducts) {
  constexpr std::int64_t kBatch = 9, kM = 5, kN = 18, kK = 6;
  Problem<float> problem({kBatch * kM, kN, kK}, DType::f32, 9);  // all products share b
  std::vector<std::int64_t> a_offsets, c_offsets;
  for (std::int64_t i = 0; i < kBatch; ++i) {
    a_offsets.push_back(i * kM * kK);
    c_offsets.push_back(i * kM * kN);
  }
  Fenced<float> c(kBatch * kM * kN);
  GemmArgs args = problem.args;
  args.m = kM;
  args.c = c.data();
  args.batch = kBatch;
  args.a_offsets = a_offsets.data();
  args.c_offsets = c_offsets.data();
  level().gemm.gemm(args);
  const auto reference = problem.reference();
  for (std::int64_t i = 0; i < kBatch * kM; ++i)
    for (std::int64_t j = 0; j < kN; ++j)
      EXPECT_NEAR(c[static_cast<std::size_t>(i * kN + j)], reference.sum(i, j), 1e-5);
}

TEST_P(Gemm, SumsColumns) {
  constexpr std::int64_t kM = 700, kN = 35;
  Fenced<float> x(kM * 40), sums(kN);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) - 48;
  level().gemm.column_sums({x.data(), DType::f32, kM, kN, 40, sums.data()});
  for (std::size_t j = 0; j < kN; ++j) {
    float sum = 0;  // integers, whose sum is exact in any order
    for (std::size_t i = 0; i < kM; ++i) sum += x[i * 40 + j];
    EXPECT_EQ(sums[j], sum);
  }
}

TEST_P(Gemm, ActivationBackwardSumsColumnsToo) {
  for (const auto& [m, n] : {std::pair{0, 5}, {1, 1}, {700, 35}, {600, 1030}, {3, 2049}}) {
    const auto count = static_cast<std::size_t>(m * n), columns = static_cast<std::size_t>(n);
    Fenced<bfloat16> z(count), gy(count), alone(count), gz(count);
    for (std::size_t i = 0; i < count; ++i) {
      z[i] = bfloat16::from_float(0.05f * static_cast<float>(i % 97) - 2);
      gy[i] = bfloat16::from_float(0.3f * static_cast<float>(i % 89) - 11);
    }
    Fenced<float> sums(columns, -1.0f), wanted(columns, -2.0f);
    const auto& gemm = level().gemm;
    gemm.activation_backward({Activation::kGelu, DType::bf16, z.data(), gy.data(), alone.data(), m, n, nullptr});
    gemm.column_sums({alone.data(), DType::bf16, m, n, n, wanted.data()});
    gemm.activation_backward({Activation::kGelu, DType::bf16, z.data(), gy.data(), gz.data(), m, n, sums.data()});
    EXPECT_EQ(sums, wanted);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(gz[i].bits, alone[i].bits) << i;
  }
}

}  // namespace
}  // namespace binade::cpu
