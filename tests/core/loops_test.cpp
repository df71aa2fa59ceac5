// Tests the functions that all loops over stored values share (core/kernels/chunk.h): conversion to f32, rounding,
// observed maxima and max(). Rows of any length, every kernel level.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/observation.h"
#include "binade/core/runtime.h"
#include "tests/core/op_check.h"

namespace binade {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class Loops : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override { cpu::select_isa(GetParam()); }
  void TearDown() override { cpu::select_isa(before_); }
  Runtime runtime_{{.seed = 3}};

 private:
  std::string_view before_ = cpu::level().isa;
};
INSTANTIATE_TEST_SUITE_P(Isa, Loops, ::testing::ValuesIn(cpu::isa_levels()),
                         [](const auto& level) { return std::string(level.param); });

Tensor tensor_of(const std::vector<float>& x) { return Tensor::from(x, {static_cast<std::int64_t>(x.size())}); }

/// Returns floats with every value of the upper 16 bits (sign, exponent, upper mantissa), each with the lower 16 bits
/// that matter for rounding. Includes subnormal numbers, infinities and NaN.
std::vector<float> every_upper_half() {
  std::vector<float> x;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const std::uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(std::bit_cast<float>(upper << 16 | lower));
  return x;
}

template <class T>
void expect_rounded_as_one_by_one() {
  const std::vector<float> x = every_upper_half();
  const Tensor y = tensor_of(x).to(kDTypeOf<T>);
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(static_cast<const T*>(y.raw())[i].bits, T::from_float(x[i]).bits)
        << std::hex << std::bit_cast<std::uint32_t>(x[i]);
}
TEST_P(Loops, VectorsRoundTo16BitsLikeSingleValues) {
  expect_rounded_as_one_by_one<bfloat16>();
  expect_rounded_as_one_by_one<float16>();
}

TEST_P(Loops, Bf16IsWidenedExactly) {
  Tensor x = Tensor::empty(Shape{1 << 16}, DType::bf16);
  for (std::uint32_t bits = 0; bits < 1 << 16; ++bits)
    static_cast<std::uint16_t*>(x.mutable_raw())[bits] = static_cast<std::uint16_t>(bits);
  const Tensor y = x.to(DType::f32);
  for (std::uint32_t bits = 0; bits < 1 << 16; ++bits)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(y.data<float>()[bits]), bits << 16);
}

/// Returns lengths around every number of elements that a loop may process at once.
std::vector<int> lengths() {
  std::vector<int> all;
  for (int n = 1; n <= 70; ++n) all.push_back(n);
  for (const int n : {511, 512, 513, 576, 1030}) all.push_back(n);
  return all;
}
/// Returns positions in a row of n: all in a short row, those near the ends and near chunk borders in a long one.
std::vector<int> positions(int n) {
  std::vector<int> all;
  for (int at = 0; at < n; ++at)
    if (n <= 70 || at < 2 || at % 512 < 2 || at % 512 > 509 || at > n - 18) all.push_back(at);
  return all;
}

TEST_P(Loops, ObservesTheValueBeforeRoundingAtEveryPosition) {
  for (const int n : lengths())
    for (const int at : positions(n))
      for (const float worst : {-3e38f, kInf, kNaN}) {
        std::vector<float> x(static_cast<std::size_t>(n), 1e-3f);
        x[static_cast<std::size_t>(at)] = worst;
        for (const DType to : {DType::bf16, DType::f16}) {
          ObservationScope scope;
          const Tensor y = tensor_of(x).to(to);
          ASSERT_EQ(scope.take().low, std::bit_cast<std::uint32_t>(worst) & 0x7fffffffu)
              << name_of(to) << ", " << at << " of " << n;
          ASSERT_EQ(std::isfinite(y.at(at)), to == DType::bf16 && std::isfinite(worst)) << at << " of " << n;
        }
      }
}

TEST_P(Loops, FindsTheMaximumOrNanAtEveryPosition) {
  for (const int n : lengths())
    for (const int at : positions(n)) {
      std::vector<float> x(static_cast<std::size_t>(n), -2.0f);
      x[static_cast<std::size_t>(at)] = -1.0f;
      ASSERT_EQ(max(tensor_of(x)).item(), -1.0) << at << " of " << n;
      x[static_cast<std::size_t>(at)] = kNaN;
      ASSERT_TRUE(std::isnan(max(tensor_of(x)).item())) << at << " of " << n;
      x[static_cast<std::size_t>(n - 1 - at)] = kInf;  // before the NaN, after it, or in its place
      ASSERT_EQ(std::isnan(max(tensor_of(x)).item()), n - 1 - at != at) << at << " of " << n;
    }
}

/// Pools four pixels in one channel for each combination of values from `choice`. Expects the first largest value or
/// the last NaN, and the gradient at its position.
void expect_first_largest_or_last_nan(const std::vector<float>& choice, DType dtype) {
  const PolicyScope scope(PrecisionPolicy{}.with("*", dtype));
  const std::size_t many = choice.size() * choice.size() * choice.size() * choice.size();
  std::vector<float> pixels(4 * many);
  for (std::size_t c = 0; c < many; ++c)
    for (std::size_t pixel = 0, rest = c; pixel < 4; ++pixel, rest /= choice.size())
      pixels[pixel * many + c] = choice[rest % choice.size()];
  Variable x(Tensor::from(pixels, {1, 2, 2, static_cast<std::int64_t>(many)}).to(dtype), true);
  const Variable y = max_pool2d(x);
  backward(y, Tensor::full(y.shape(), 1, dtype));
  for (std::size_t c = 0; c < many; ++c) {
    std::size_t taken = 0;
    for (std::size_t pixel = 1; pixel < 4; ++pixel) {
      const float v = pixels[pixel * many + c];
      if (v > pixels[taken * many + c] || std::isnan(v)) taken = pixel;
    }
    const float best = pixels[taken * many + c];
    const auto pooled = static_cast<float>(y.value().at(static_cast<std::int64_t>(c)));
    ASSERT_EQ(std::isnan(pooled), std::isnan(best)) << name_of(dtype) << ", channel " << c;
    if (!std::isnan(best)) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(pooled), std::bit_cast<std::uint32_t>(best)) << name_of(dtype) << c;
    }
    for (std::size_t pixel = 0; pixel < 4; ++pixel)
      ASSERT_EQ(x.grad().at(static_cast<std::int64_t>(pixel * many + c)), pixel == taken ? 1 : 0)
          << name_of(dtype) << ", channel " << c << ", pixel " << pixel;
  }
}
/// Tests ordinary numbers, and NaN and infinities: if a register of channels contains one, all of it takes a slower
/// path.
TEST_P(Loops, PoolingSelectsTheFirstLargestPixelOrTheLastNan) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    expect_first_largest_or_last_nan({-2, -0.0f, 0.0f, 1}, dtype);
    expect_first_largest_or_last_nan({-kInf, -2, -0.0f, 0.0f, 1, kInf, kNaN}, dtype);
  }
}

/// softmax of (0, x) is e^x / (1 + e^x). Tolerance: 1 ulp for the exponential and three roundings; one unit of the last
/// place if e^x is subnormal.
TEST_P(Loops, ExponentialsAreAccurateDownToSubnormals) {
  std::vector<float> x;
  for (float at = 0; at > -104.5f; at -= 0.00437f) x.insert(x.end(), {0.0f, at});
  x.insert(x.end(), {0.0f, -std::numeric_limits<float>::max(), 0.0f, -kInf});
  const auto rows = static_cast<std::int64_t>(x.size()) / 2;
  const std::vector<float> y = softmax(Tensor::from(x, {rows, 2})).value().to_vector<float>();
  for (std::size_t i = 1; i < x.size(); i += 2) {
    const double e = std::exp(static_cast<double>(x[i])), exact = e / (1 + e);
    if (x[i] < -103.98f)
      ASSERT_EQ(y[i], 0.0f) << x[i];
    else
      ASSERT_NEAR(y[i], exact, 5 * 0x1p-24 * exact + 0x1p-149) << x[i];
  }
}

TEST_P(Loops, ANanAtAnyPositionReachesTheWholeSoftmaxAndTheLoss) {
  for (const int n : lengths())
    for (const int at : positions(n)) {
      std::vector<float> x(static_cast<std::size_t>(n), -1.0f);
      x[static_cast<std::size_t>(at)] = kNaN;
      const Tensor row = Tensor::from(x, {1, n});
      for (const float y : softmax(row).value().to_vector<float>()) ASSERT_TRUE(std::isnan(y)) << at << " of " << n;
      const Tensor first = Tensor::zeros({1}, DType::i64);
      for (const double smoothing : {0.0, 0.1})
        ASSERT_TRUE(std::isnan(cross_entropy(row, first, {.label_smoothing = smoothing}).item())) << at << " of " << n;
    }
}

/// A product with the 1 x 1 matrix (1) returns its input, so the test compares the fused GELU only.
TEST_P(Loops, GeluHasTheSameBitsAloneAndFusedIntoAProduct) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const PolicyScope scope(PrecisionPolicy{}.with("*", dtype));
    const Tensor values = test::noise({401, 1}, 1, dtype, 15), one = Tensor::full({1, 1}, 1, dtype);
    for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh}) {
      Variable in_loop(values, true), in_product(values, true);
      const Variable alone = activation == Activation::kGelu ? gelu(in_loop) : gelu_tanh(in_loop);
      const Variable fused = linear(in_product, one, {}, {.activation = activation});
      EXPECT_EQ(alone.value().to_vector<float>(), fused.value().to_vector<float>()) << name_of(dtype);
      if (dtype != DType::f32)
        continue;  // in 16 bits the fused gradient is rounded once more than the f32 gradient of a leaf
      const Tensor gy = test::noise({401, 1}, 2, dtype);
      backward(alone, gy);
      backward(fused, gy);
      EXPECT_EQ(in_loop.grad().to_vector<float>(), in_product.grad().to_vector<float>());
    }
  }
}

}  // namespace
}  // namespace binade
