#include <gtest/gtest.h>

#include <limits>

#include "binade/autograd/functions/embedding.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/precision.h"
#include "binade/core/runtime.h"
#include "binade/core/step_context.h"
#include "tests/core/op_check.h"

namespace binade {
namespace {

using test::noise;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class Movement : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 3}};
};
using Pooling = Movement;
using Upsampling = Movement;
using EmbeddingTable = Movement;

TEST_F(Pooling, MaxPropagatesNanFromEveryPosition) {
  for (int position = 0; position < 4; ++position) {
    std::vector<double> values{1, 2, 3, 4};
    values[static_cast<std::size_t>(position)] = kNaN;
    const Variable y = max_pool2d(Tensor::from(values, {1, 2, 2, 1}).to(DType::f32));
    EXPECT_TRUE(std::isnan(y.item())) << position;
  }
  EXPECT_EQ(max_pool2d(Tensor::full({1, 2, 2, 1}, -kInf)).item(), -kInf);
}

TEST_F(Pooling, MaxEqualsAPlainLoop) {
  const Tensor x = noise({2, 7, 5, 19}, 1, DType::f32);
  const Variable y = max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1});
  ASSERT_EQ(y.shape(), (Shape{2, 4, 3, 19}));
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t oh = 0; oh < 4; ++oh)
      for (std::int64_t ow = 0; ow < 3; ++ow)
        for (std::int64_t c = 0; c < 19; ++c) {
          double best = -kInf;
          for (std::int64_t h = std::max<std::int64_t>(0, oh * 2 - 1); h < std::min<std::int64_t>(7, oh * 2 + 2); ++h)
            for (std::int64_t w = std::max<std::int64_t>(0, ow * 2 - 1); w < std::min<std::int64_t>(5, ow * 2 + 2); ++w)
              best = std::max(best, x.at(((n * 7 + h) * 5 + w) * 19 + c));
          ASSERT_EQ(y.value().at(((n * 4 + oh) * 3 + ow) * 19 + c), best);
        }
}

/// A window may contain only padding, and the image may be empty.
TEST_F(Pooling, MaxOfNoPixelsIsMinusInfinity) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Variable y = max_pool2d(Tensor::empty({1, 0, 4, 3}, dtype), {.kernel = 2, .stride = 1, .padding = 1});
    ASSERT_EQ(y.shape(), (Shape{1, 1, 5, 3}));
    for (std::int64_t i = 0; i < 15; ++i) EXPECT_EQ(y.value().at(i), -kInf) << name_of(dtype);
  }
}

TEST_F(Pooling, WindowsMayBeRectangular) {
  const Tensor x = Tensor::from(std::vector<float>{1, 5, 2, 8, 3, 7, 4, 6}, {1, 2, 4, 1});
  const Variable most = max_pool2d(x, {.kernel = {1, 2}}), mean = avg_pool2d(x, {.kernel = {2, 1}, .stride = {2, 3}});
  EXPECT_EQ(most.value().to_vector<float>(), (std::vector<float>{5, 8, 7, 6}));
  EXPECT_EQ(mean.shape(), (Shape{1, 1, 2, 1}));
  EXPECT_EQ(mean.value().to_vector<float>(), (std::vector<float>{2, 7}));
}

TEST_F(Pooling, GradientsEqualDifferences) {
  const Tensor x = noise({2, 5, 6, 3}, 1);
  for (const PoolOptions& o : {PoolOptions{}, PoolOptions{.kernel = 3, .stride = 1, .padding = 1},
                               PoolOptions{.kernel = {3, 2}}, PoolOptions{.kernel = 2, .stride = 3},
                               PoolOptions{.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false}}) {
    test::check_gradients([&](const auto& v) { return std::vector{max_pool2d(v[0], o)}; }, {x});
    test::check_gradients([&](const auto& v) { return std::vector{avg_pool2d(v[0], o)}; }, {x});
  }
}

TEST_F(Pooling, AverageCountsPaddingOnlyOnRequest) {
  const Tensor x = Tensor::full({1, 2, 2, 1}, 1);
  EXPECT_FLOAT_EQ(avg_pool2d(x, {.kernel = 2, .stride = 2, .padding = 1}).value().at(0), 0.25f);
  EXPECT_FLOAT_EQ(avg_pool2d(x, {.kernel = 2, .stride = 2, .padding = 1, .count_include_pad = false}).value().at(0),
                  1.0f);
}

TEST_F(Upsampling, NearestRepeatsAndBilinearInterpolates) {
  const Tensor x = Tensor::from(std::vector<float>{1, 3}, {1, 1, 2, 1});
  EXPECT_EQ(upsample(x, 2).value().to_vector<float>(), (std::vector<float>{1, 1, 3, 3, 1, 1, 3, 3}));
  EXPECT_EQ(upsample_to(x, 1, 4, UpsampleMode::kBilinear).value().to_vector<float>(),
            (std::vector<float>{1, 1.5, 2.5, 3}));
}

TEST_F(Upsampling, GradientsEqualDifferences) {
  const Tensor x = noise({2, 3, 4, 3}, 1);
  for (const UpsampleMode mode : {UpsampleMode::kNearest, UpsampleMode::kBilinear}) {
    test::check_gradients([&](const auto& v) { return std::vector{upsample(v[0], 2, mode)}; }, {x});
    test::check_gradients([&](const auto& v) { return std::vector{upsample_to(v[0], 5, 3, mode)}; }, {x});
  }
}

TEST_F(Movement, TheNumberOfThreadsDoesNotAffectTheBits) {
  const Tensor x = noise({3, 33, 34, 21}, 1, DType::f32);
  test::check_threads(
      [](const auto& v) { return std::vector{max_pool2d(v[0], {.kernel = 3, .stride = 2, .padding = 1})}; }, {x});
  test::check_threads(
      [](const auto& v) { return std::vector{avg_pool2d(v[0], {.kernel = 3, .stride = 2, .padding = 1})}; }, {x});
  test::check_threads([](const auto& v) { return std::vector{upsample(v[0], 2, UpsampleMode::kBilinear)}; }, {x});
  test::check_threads(
      [](const auto& v) {
        return std::vector{concat({v[0], v[0]}), permute(v[0], {3, 1, 0, 2})};
      },
      {x});
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < 3000; ++i) tokens.push_back(i * i % 37);
  const Tensor indices = Tensor::from(tokens, {3000});
  test::check_threads([&](const auto& v) { return std::vector{embedding(v[0], indices)}; },
                      {noise({40, 20}, 2, DType::f32)});
}

TEST_F(Movement, GradientsEqualDifferences) {
  const Tensor a = noise({2, 3, 4}, 1), b = noise({2, 3, 2}, 2);
  test::check_gradients([](const auto& v) { return std::vector{concat({v[0], v[1], v[0]})}; }, {a, b});
  test::check_gradients(
      [](const auto& v) {
        return std::vector{concat({v[0], v[0]}, 1), concat({v[0], v[0]}, 0)};
      },
      {a});
  for (const int axis : {0, 1, 2})
    test::check_gradients([&](const auto& v) { return std::vector{slice(v[0], axis, 1, 2)}; }, {a});
  test::check_gradients(
      [](const auto& v) {
        return std::vector{permute(v[0], {2, 0, 1}), transpose(v[0]), reshape(v[0], {4, -1})};
      },
      {a});
}

TEST_F(Movement, PermuteMovesEveryElementOfEverySize) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::u8}) {
    std::vector<float> values(24);
    for (std::size_t i = 0; i < 24; ++i) values[i] = static_cast<float>(i);
    const Variable y = permute(Tensor::from(values, {2, 3, 4}).to(dtype), {2, 0, 1});
    ASSERT_EQ(y.shape(), (Shape{4, 2, 3}));
    for (std::int64_t i = 0; i < 4; ++i)
      for (std::int64_t j = 0; j < 2; ++j)
        for (std::int64_t k = 0; k < 3; ++k)
          EXPECT_EQ(y.value().at((i * 2 + j) * 3 + k), static_cast<double>(j * 12 + k * 4 + i));
  }
}

TEST_F(Movement, ConcatAcceptsChannelSlicesAndStoresTheWidestDType) {
  const Tensor wide = noise({2, 3, 8}, 1, DType::f16);
  const Variable y = concat({wide.channel_slice(2, 3), wide.channel_slice(0, 1).to(DType::f32)});
  EXPECT_EQ(y.dtype(), DType::f32);
  for (std::int64_t r = 0; r < 6; ++r)
    for (std::int64_t c = 0; c < 4; ++c) EXPECT_EQ(y.value().at(r * 4 + c), wide.at(r * 8 + (c < 3 ? c + 2 : 0)));
}

TEST_F(Movement, BadExtentsAreErrorsThatNameThem) {
  const Tensor x = noise({2, 3}, 1, DType::f32);
  EXPECT_THROW(reshape(x, {4, -1}), ShapeError);
  EXPECT_THROW(reshape(x, {-1, -1}), ShapeError);
  EXPECT_THROW(slice(x, 0, 1, 3), ShapeError);
  EXPECT_THROW(permute(x, {0, 0}), ArgumentError);
  EXPECT_THROW(concat({x, noise({3, 3}, 2, DType::f32)}), ShapeError);
  EXPECT_THROW(max_pool2d(x), ShapeError);
  EXPECT_THROW(max_pool2d(noise({1, 1, 1, 1}, 1, DType::f32)), ShapeError);
}

TEST_F(EmbeddingTable, GradientsEqualDifferences) {
  const Tensor indices = Tensor::from(std::vector<std::int64_t>{2, 0, 2, 2, 4, 0}, {2, 3});
  test::check_gradients([&](const auto& v) { return std::vector{embedding(v[0], indices)}; }, {noise({6, 5}, 1)});
}

TEST_F(EmbeddingTable, ReadsThe16BitCopyUnderA16BitPolicyAndHasAnF32Gradient) {
  Variable weight(noise({4, 3}, 1, DType::f32), true);
  const Tensor indices = Tensor::from(std::vector<std::int32_t>{3, 1}, {2});
  const PolicyScope scope(PrecisionPolicy{.name = "fp16", .low = DType::f16});
  const Variable y = embedding(weight, indices);
  ASSERT_EQ(y.dtype(), DType::f16);
  EXPECT_EQ(y.value().at(0), float16::from_float(static_cast<float>(weight.value().at(9))).to_float());
  backward(y, Tensor::full({2, 3}, 1, DType::f16));
  EXPECT_EQ(weight.grad().dtype(), DType::f32);
  EXPECT_EQ(weight.grad().to_vector<float>(), (std::vector<float>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
}

TEST_F(EmbeddingTable, AnIndexOutOfRangeIsAnErrorWithItsPosition) {
  const Tensor indices = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 7}, {2, 2});
  try {
    embedding(noise({4, 3}, 1, DType::f32), indices);
    FAIL() << "an index of 7 was accepted for 4 rows";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("got 7 at position (1, 1)"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace binade
