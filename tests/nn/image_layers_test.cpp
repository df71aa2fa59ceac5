#include "binade/nn/image_layers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/autograd/functions/pool.h"
#include "binade/core/runtime.h"
#include "binade/nn/embedding.h"
#include "binade/nn/sequential.h"
#include "tests/core/op_check.h"
#include "tests/error_text.h"

/// Layers of images, and EmbeddingBag. tests/golden compares their functions with PyTorch's, forward and backward.
namespace binade::nn {
namespace {

class ImageLayers : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 5}};
  const Variable x_ = test::noise({2, 5, 7, 8}, 1, DType::f32);

  static std::vector<float> values(const Variable& x) { return x.value().to_vector<float>(); }
};

TEST_F(ImageLayers, AdaptivePoolsReduceWindowsOfPyTorchsPositions) {
  AdaptiveAvgPool2d average({.size = {2, 3}});
  AdaptiveMaxPool2d largest({.size = {2, 3}});
  const Variable mean = average(x_), most = largest(x_);
  ASSERT_EQ(mean.shape(), (Shape{2, 2, 3, 8}));
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 3; ++j) {
      double sum = 0, top = -9;
      int count = 0;
      for (std::int64_t h = i * 5 / 2; h < ((i + 1) * 5 + 1) / 2; ++h)
        for (std::int64_t w = j * 7 / 3; w < ((j + 1) * 7 + 2) / 3; ++w, ++count) {
          const double v = x_.value().at((h * 7 + w) * 8 + 3);
          sum += v;
          top = std::max(top, v);
        }
      EXPECT_NEAR(mean.value().at((i * 3 + j) * 8 + 3), sum / count, 1e-6);
      EXPECT_EQ(most.value().at((i * 3 + j) * 8 + 3), top);
    }
  EXPECT_EQ(values(AdaptiveAvgPool2d({.size = 0})(x_)), values(x_)) << "0 keeps the extent";
  EXPECT_EQ(values(AdaptiveAvgPool2d()(x_)), values(avg_pool2d(x_, {.kernel = {5, 7}})));
}

TEST_F(ImageLayers, AdaptivePoolsKeepTheDtypePropagateNanAndHaveGradients) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64})
    for (const bool average : {true, false}) {
      const Variable x = x_.value().to(dtype);
      const Variable y = average ? adaptive_avg_pool2d(x, {3, 2}) : adaptive_max_pool2d(x, {3, 2});
      EXPECT_EQ(y.dtype(), dtype);
      if (!average || dtype == DType::f64) continue;
      const Tensor wide = adaptive_avg_pool2d(x.value().to(DType::f32), {3, 2}).value();
      EXPECT_EQ(values(y), wide.to(dtype).to_vector<float>()) << "rounded once";
    }
  Tensor odd = x_.value().clone();
  odd.mutable_data<float>()[0] = std::nanf("");
  EXPECT_TRUE(std::isnan(adaptive_avg_pool2d(odd, {3, 2}).value().at(0)));
  EXPECT_TRUE(std::isnan(adaptive_max_pool2d(odd, {3, 2}).value().at(0)));
  Tensor infinite = x_.value().clone();
  infinite.fill(HUGE_VAL);
  for (const float v : values(adaptive_avg_pool2d(infinite, {3, 2}))) EXPECT_EQ(v, HUGE_VALF);
  for (const Extent2 size : {Extent2(3, 2), Extent2(4, 9), Extent2(2, 3)})
    test::check_gradients(
        [&](const std::vector<Variable>& in) {
          return std::vector{adaptive_avg_pool2d(in[0], size), adaptive_max_pool2d(in[0], size)};
        },
        {test::noise({1, 4, 5, 2}, 4)});
  EXPECT_EQ(adaptive_avg_pool2d(Tensor::zeros({0, 4, 4, 2}), 3).shape(), (Shape{0, 3, 3, 2}));
  EXPECT_THROW(adaptive_avg_pool2d(Tensor::zeros({1, 0, 4, 2}), 1), ShapeError);
  EXPECT_THROW(adaptive_avg_pool2d(x_, -1), ArgumentError);
  EXPECT_THROW(adaptive_max_pool2d(x_, 1 << 20), ArgumentError);
  EXPECT_THROW(adaptive_max_pool2d(Tensor::zeros({2, 3}), 1), ShapeError);
}

TEST_F(ImageLayers, PixelUnshuffleIsTheInverseOfPixelShuffle) {
  Sequential net{PixelShuffle{}, PixelUnshuffle{}};
  EXPECT_EQ(net[0](x_).shape(), (Shape{2, 10, 14, 2}));
  EXPECT_EQ(values(net(x_)), values(x_));
  EXPECT_EQ(net[1].kind(), "PixelUnshuffle");
  // Channel c r r + i r + j goes to row i and column j of channel c.
  const Variable y = pixel_shuffle(Tensor::from(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, {1, 1, 1, 8}), 2);
  EXPECT_EQ(values(y), (std::vector<float>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_THROW(PixelShuffle({.factor = 3})(x_), ShapeError);
  EXPECT_THROW(PixelUnshuffle({.factor = 2})(x_), ShapeError);
  EXPECT_THROW(PixelShuffle({.factor = 0})(x_), ArgumentError);
}

TEST_F(ImageLayers, LocalResponseNormDividesByNeighboringChannels) {
  LocalResponseNorm norm({.size = 3, .alpha = 0.5, .beta = 0.75, .k = 2});
  const Variable y = norm(x_);
  for (std::int64_t c = 0; c < 8; ++c) {
    double sum = 0;
    for (std::int64_t d = std::max<std::int64_t>(0, c - 1); d < std::min<std::int64_t>(8, c + 2); ++d)
      sum += std::pow(x_.value().at(d), 2);
    EXPECT_NEAR(y.value().at(c), x_.value().at(c) / std::pow(2 + 0.5 / 3 * sum, 0.75), 1e-6);
  }
  test::check_gradients(
      [](const std::vector<Variable>& in) { return std::vector{local_response_norm(in[0], 4, 0.7, 0.6, 1)}; },
      {test::noise({2, 3, 5}, 4)});
  const Variable half = local_response_norm(Tensor::full({1, 4}, 300, DType::f16), 2);
  EXPECT_EQ(half.dtype(), DType::f16);
  EXPECT_TRUE(std::isfinite(half.value().at(0))) << "squares are computed in f32";
  EXPECT_THROW(LocalResponseNorm({.size = 0})(x_), ArgumentError);
  EXPECT_THROW(norm(Tensor::zeros({2, 3}, DType::i64)), DTypeError);
}

TEST_F(ImageLayers, InstanceNormGivesEachChannelMeanZeroAndVarianceOne) {
  InstanceNorm2d norm({.channels = 8}), affine({.channels = 8, .affine = true}), other({.channels = 8, .affine = true});
  EXPECT_TRUE(named_parameters(norm).empty());
  const Variable y = norm(x_);
  for (std::int64_t c = 0; c < 8; ++c) {
    double mean = 0, square = 0;
    for (std::int64_t p = 0; p < 35; ++p) {
      mean += y.value().at(p * 8 + c) / 35;
      square += std::pow(y.value().at(p * 8 + c), 2) / 35;
    }
    EXPECT_NEAR(mean, 0, 1e-6);
    EXPECT_NEAR(square, 1, 1e-3);  // eps = 1e-5 is small compared with a variance of about 1 / 3
  }
  affine.weight.mutable_value().fill(3);
  load_state_dict(other, state_dict(affine));
  other.eval();
  EXPECT_EQ(values(other(x_)), values(affine(x_))) << "training and evaluation agree";
  const Variable pixel = Tensor::zeros({2, 1, 1, 8});
  EXPECT_THROW(norm(pixel), ShapeError);
  EXPECT_EQ(norm(Tensor::zeros({0, 3, 3, 8})).shape(), (Shape{0, 3, 3, 8}));
  norm.eval();
  EXPECT_EQ(values(norm(pixel)), std::vector<float>(16, 0));
  EXPECT_THROW(norm(Tensor::zeros({2, 3, 3, 4})), ShapeError);
  EXPECT_THROW(InstanceNorm2d({.channels = 0}), ArgumentError);
}

TEST_F(ImageLayers, EmbeddingBagCombinesRows) {
  EmbeddingBag bag({.count = 5, .dim = 2, .mode = BagMode::kSum}), other({.count = 5, .dim = 2, .mode = BagMode::kSum});
  load_state_dict(other, state_dict(bag));
  const Tensor indices = Tensor::from(std::vector<std::int64_t>{1, 3, 4, 1}, {2, 2}),
               flat = Tensor::from(std::vector<std::int64_t>{1, 3, 4, 1}, {4}),
               offsets = Tensor::from(std::vector<std::int64_t>{0, 2}, {2});
  const Variable y = bag(indices);
  for (std::int64_t d = 0; d < 2; ++d) {
    EXPECT_NEAR(y.value().at(d), bag.weight.value().at(2 + d) + bag.weight.value().at(6 + d), 1e-6);
    EXPECT_NEAR(y.value().at(2 + d), bag.weight.value().at(8 + d) + bag.weight.value().at(2 + d), 1e-6);
  }
  EXPECT_EQ(values(other(flat, offsets)), values(y));
  EXPECT_THROW(bag(Tensor::from(std::vector<std::int64_t>{5}, {1, 1})), DataError);
  EXPECT_THROW(EmbeddingBag({.count = 0, .dim = 1}), ArgumentError);
}

}  // namespace
}  // namespace binade::nn
