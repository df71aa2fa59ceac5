#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/autograd/recompute.h"
#include "binade/core/runtime.h"
#include "binade/nn/conv2d.h"
#include "binade/nn/conv_transpose2d.h"
#include "binade/nn/lora.h"
#include "binade/nn/sequential.h"
#include "binade/nn/spectral_norm.h"
#include "binade/nn/weight_norm.h"
#include "binade/optim/muon.h"
#include "binade/optim/sgd.h"
#include "tests/core/op_check.h"
#include "tests/error_text.h"

/// WeightNorm, SpectralNorm and Lora. tests/golden compares their results and gradients with PyTorch's.
namespace binade::nn {
namespace {

using Names = std::vector<std::string>;

class Wrappers : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 5}};
  const Tensor x_ = test::noise({3, 5}, 1, DType::f32);

  static Names names(const StateDict& state) {
    Names found;
    for (const auto& entry : state.values()) found.push_back(entry.first);
    return found;
  }
  static void expect_near(const Variable& got, const Variable& want, double tolerance) {
    ASSERT_EQ(got.shape(), want.shape());
    for (std::int64_t i = 0; i < want.value().numel(); ++i)
      ASSERT_NEAR(got.value().at(i), want.value().at(i), tolerance) << i;
  }
};

TEST_F(Wrappers, WeightNormBeginsWithTheWeightOfTheLayerAndFoldsBack) {
  Linear plain({.in = 5, .out = 4});
  Linear copy({.in = 5, .out = 4});
  load_state_dict(copy, state_dict(plain));
  const Variable wanted = plain(x_);
  WeightNorm layer(std::move(copy));
  EXPECT_EQ(names(state_dict(layer)), (Names{"bias", "weight_g", "weight_v"}));
  EXPECT_EQ(layer.weight_g.shape(), (Shape{4, 1}));
  expect_near(layer(x_), wanted, 1e-6);
  optim::Sgd optimizer(layer, {.lr = 0.1});
  backward(sum(square(layer(x_))));
  optimizer.step();
  EXPECT_GT(std::abs(layer(x_).value().at(0) - wanted.value().at(0)), 1e-4) << "it is trained";
  const Variable trained = layer(x_);
  Linear folded = std::move(layer).fold();
  EXPECT_EQ(names(state_dict(folded)), (Names{"bias", "weight"}));
  expect_near(folded(x_), trained, 1e-6);
}

TEST_F(Wrappers, WeightNormOfConvolutionsKeepsLengthsOfOutputChannels) {
  WeightNorm down(Conv2d({.in = 2, .out = 3}));
  WeightNorm up(ConvTranspose2d({.in = 3, .out = 4}), {.axis = -1});
  EXPECT_EQ(down.weight_g.shape(), (Shape{3, 1, 1, 1}));
  EXPECT_EQ(up.weight_g.shape(), (Shape{1, 1, 1, 4}));
  Sequential net(std::move(down), std::move(up));
  EXPECT_EQ(net(test::noise({1, 5, 5, 2}, 1, DType::f32)).shape(), (Shape{1, 4, 4, 4}));
  EXPECT_EQ(names(state_dict(net)).front(), "0.bias");
  EXPECT_THROW(WeightNorm(Linear({.in = 2, .out = 2}), {.axis = 2}), ArgumentError);
  WeightNorm once(Linear({.in = 2, .out = 2}));
  EXPECT_EQ(once.kind(), "WeightNorm");
}

/// The largest singular value of a matrix, by many steps of the power iteration in double.
double largest_singular_value(const Tensor& w) {
  const std::int64_t rows = w.dim(0), columns = w.numel() / rows;
  std::vector<double> v(static_cast<std::size_t>(columns), 1);
  double sigma = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> u(static_cast<std::size_t>(rows), 0), next(v.size(), 0);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        u[static_cast<std::size_t>(r)] += w.at(r * columns + c) * v[static_cast<std::size_t>(c)];
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        next[static_cast<std::size_t>(c)] += w.at(r * columns + c) * u[static_cast<std::size_t>(r)];
    double length = 0;
    for (const double n : next) length += n * n;
    length = std::sqrt(length);
    sigma = std::sqrt(length);
    for (std::size_t c = 0; c < v.size(); ++c) v[c] = next[c] / length;
  }
  return sigma;
}

TEST_F(Wrappers, SpectralNormDividesByTheLargestSingularValue) {
  Conv2d plain({.in = 3, .out = 4, .bias = false});
  const Tensor weight = plain.weight.value().clone();
  SpectralNorm layer(std::move(plain));
  EXPECT_EQ(names(state_dict(layer)), (Names{"weight_orig", "weight_u", "weight_v"}));
  const Variable image = test::noise({1, 5, 5, 3}, 1, DType::f32);
  for (int i = 0; i < 200; ++i) layer(image);  // each call in training mode is a step of the iteration
  const double sigma = largest_singular_value(weight);
  Conv2d folded = std::move(layer).fold();
  for (std::int64_t i = 0; i < weight.numel(); ++i)
    ASSERT_NEAR(folded.weight.value().at(i), weight.at(i) / sigma, 1e-5);

  Linear wide({.in = 4, .out = 3});
  const Tensor first = wide.weight.value().clone();
  SpectralNorm other(std::move(wide), {.iterations = 100});
  const Variable y = other(test::noise({2, 4}, 1, DType::f32));
  Linear result = std::move(other).fold();
  EXPECT_NEAR(result.weight.value().at(0), first.at(0) / largest_singular_value(first), 1e-5);
  EXPECT_THROW(SpectralNorm(Linear({.in = 2, .out = 2}), {.iterations = 0}), ArgumentError);
  EXPECT_THROW(SpectralNorm(Linear({.in = 2, .out = 2}), {.axis = 5}), ArgumentError);
}

class Spectral : public Wrappers {
 protected:
  SpectralNorm<Linear> layer_{Linear({.in = 5, .out = 4})};

  std::vector<double> vectors() {
    std::vector<double> all;
    for (const auto& [name, buffer] : named_buffers(layer_))
      for (const double v : buffer->committed().to_vector<double>()) all.push_back(v);
    return all;
  }
};

TEST_F(Spectral, EvaluationAndRecomputationDoNotChangeTheVectors) {
  layer_.eval();
  const std::vector<double> before = vectors();
  const Tensor y = layer_(x_).value();
  EXPECT_EQ(vectors(), before);
  EXPECT_EQ(layer_(x_).value().to_vector<float>(), y.to_vector<float>());
  layer_.train();
  const Variable input(x_, true);
  const Variable z = recompute([&](const Variable& in) { return layer_(in); }, input);
  const std::vector<double> after = vectors();
  EXPECT_NE(after, before);
  backward(sum(square(z)));
  EXPECT_EQ(vectors(), after);
  EXPECT_TRUE(layer_.original().grad().defined());
}

TEST_F(Spectral, AStepThatDoesNotCommitLeavesTheVectors) {
  const std::vector<double> before = vectors();
  {
    const TransactionScope transaction;
    const Tensor first = layer_(x_).value(), second = layer_(x_).value();
    EXPECT_EQ(first.to_vector<float>(), second.to_vector<float>()) << "one weight for all calls of a step";
    EXPECT_EQ(vectors(), before);
  }
  for (const auto& [name, buffer] : named_buffers(layer_)) buffer->rollback();
  EXPECT_EQ(vectors(), before);
  {
    const TransactionScope transaction;
    layer_(x_);
    for (const auto& [name, buffer] : named_buffers(layer_)) buffer->commit();
  }
  EXPECT_NE(vectors(), before);
}

TEST_F(Spectral, BackwardReadsTheVectorsOfItsForward) {
  layer_.eval();
  const Variable y = layer_(x_);
  backward(y, test::noise({3, 4}, 3, DType::f32), {.retain_graph = true});
  const std::vector<float> wanted = layer_.original().grad().to_vector<float>();
  layer_.original().zero_grad();
  layer_.train();
  layer_(x_);  // another power iteration, which changes u and v
  backward(y, test::noise({3, 4}, 3, DType::f32));
  EXPECT_EQ(layer_.original().grad().to_vector<float>(), wanted);
}

TEST_F(Spectral, ReadsF32UnderEveryPolicy) {
  layer_.eval();
  const Tensor y = layer_(x_).value();
  const PolicyScope half({.name = "bf16", .low = DType::bf16});
  const Tensor z = layer_(x_).value();
  EXPECT_EQ(z.dtype(), DType::bf16);
  for (std::int64_t i = 0; i < y.numel(); ++i)
    EXPECT_NEAR(z.at(i), y.at(i), 0.02);  // the operands are rounded to 8 bits
}

TEST_F(Spectral, HasTheGradientOfItsFormula) {
  layer_.eval();
  const Tensor weight = layer_.original().value().clone();
  backward(layer_(x_), test::noise({3, 4}, 3, DType::f32));
  const Tensor gradient = layer_.original().grad();
  // The same by ops in double: W / (u^T W v) with constant u and v.
  const auto buffers = named_buffers(layer_);
  const Variable w(weight.to(DType::f64), true), u = reshape(buffers[0].second->value().to(DType::f64), {1, 4}),
                                                 v = reshape(buffers[1].second->value().to(DType::f64), {5, 1});
  const Variable y = linear(x_.to(DType::f64), w / matmul(matmul(u, w), v));
  backward(y, test::noise({3, 4}, 3));
  for (std::int64_t i = 0; i < 20; ++i) EXPECT_NEAR(gradient.at(i), w.grad().at(i), 1e-5);
}

TEST_F(Wrappers, LoraBeginsWithTheFrozenLayer) {
  Linear plain({.in = 5, .out = 4});
  const StateDict pretrained = state_dict(plain);
  const Variable wanted = plain(x_);
  Lora layer(Linear({.in = 5, .out = 4}), {.rank = 2, .alpha = 6});
  const LoadResult result = load_state_dict(layer, pretrained, {.strict = false});
  EXPECT_EQ(result.missing, (Names{"lora_a", "lora_b"}));
  EXPECT_EQ(layer(x_).value().to_vector<float>(), wanted.value().to_vector<float>());
  optim::Sgd optimizer(layer, {.lr = 0.1});
  const std::vector<float> frozen = layer.layer.weight.value().to_vector<float>();
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    backward(sum(square(layer(x_))));
    optimizer.step();
  }
  EXPECT_EQ(layer.layer.weight.value().to_vector<float>(), frozen);
  EXPECT_FALSE(layer.layer.bias.grad().defined());
  EXPECT_GT(std::abs(layer(x_).value().at(0) - wanted.value().at(0)), 1e-3);
}

TEST_F(Wrappers, LoraMergesAndUnmerges) {
  Lora layer(Linear({.in = 5, .out = 4}), {.rank = 2, .alpha = 6});
  layer.lora_b.mutable_value().copy_from(test::noise({4, 2}, 2, DType::f32));
  layer.eval();
  const std::vector<float> before = layer.layer.weight.value().to_vector<float>();
  const Variable wanted = layer(x_);
  layer.merge();
  EXPECT_NE(layer.layer.weight.value().to_vector<float>(), before);
  expect_near(layer(x_), wanted, 2e-6);
  Linear plain({.in = 5, .out = 4});
  load_state_dict(plain, state_dict(layer));
  expect_near(plain(x_), wanted, 2e-6);
  EXPECT_THROW(layer.merge(), ArgumentError);
  layer.train();
  EXPECT_NE(test::error_of([&] { layer(x_); }).find("unmerge"), std::string::npos);
  layer.unmerge();
  EXPECT_EQ(layer.layer.weight.value().to_vector<float>(), before) << "the same bits";
  EXPECT_EQ(layer(x_).value().to_vector<float>(), wanted.value().to_vector<float>());
  EXPECT_THROW(layer.unmerge(), ArgumentError);
  layer.merge();
  plain.weight.mutable_value().fill(1);
  load_state_dict(layer, state_dict(plain));
  const std::string text = test::error_of([&] { layer.unmerge(); });
  EXPECT_NE(text.find("it was changed since"), std::string::npos) << text;
}

/// All parameters of an optimizer are in one buffer, which counts the writes to it.
TEST_F(Wrappers, LoraUnmergesBesideOthersThatAnOptimizerHolds) {
  struct Two : Module {
    Linear first{{.in = 5, .out = 5}}, second{{.in = 5, .out = 5}};
    void visit(Visitor& v) override {
      v("first", first);
      v("second", second);
    }
  } model;
  const optim::Sgd optimizer(model, {.lr = 0.1});
  Lora first(std::move(model.first), {.rank = 2}), second(std::move(model.second), {.rank = 2});
  first.merge();
  second.merge();
  first.unmerge();
  second.unmerge();
  EXPECT_FALSE(first.merged() || second.merged());
}

TEST_F(Wrappers, MuonStepsLengthsByAdamW) {
  WeightNorm layer(Linear({.in = 5, .out = 4}));
  const optim::Muon muon(layer);
  EXPECT_TRUE(muon.by_adamw("weight_g"));
  EXPECT_TRUE(muon.by_adamw("bias"));
  EXPECT_FALSE(muon.by_adamw("weight_v"));
  Sequential filters(Conv2d({.in = 8, .out = 4, .kernel = 3}), Conv2d({.in = 4, .out = 1, .kernel = 3}));
  const optim::Muon two(filters);
  EXPECT_FALSE(two.by_adamw("0.weight"));
  EXPECT_TRUE(two.by_adamw("1.weight")) << "one filter is a vector";
}

TEST_F(Wrappers, LoraDropsInTrainingOnlyAndRefusesWhatCannotBe) {
  Lora layer(Linear({.in = 5, .out = 4}), {.rank = 2, .dropout = 0.5});
  layer.lora_b.mutable_value().copy_from(test::noise({4, 2}, 2, DType::f32));
  EXPECT_NE(layer(x_).value().to_vector<float>(), layer(x_).value().to_vector<float>());
  layer.eval();
  EXPECT_EQ(layer(x_).value().to_vector<float>(), layer(x_).value().to_vector<float>());
  EXPECT_THROW(Lora(Linear({.in = 5, .out = 4}), {.rank = 0}), ArgumentError);
  EXPECT_THROW(Lora(Linear({.in = 5, .out = 4}), {.dropout = 1}), ArgumentError);
  EXPECT_THROW(Lora(Linear({.in = 5, .out = 4, .activation = Activation::kRelu})), ArgumentError);
}

}  // namespace
}  // namespace binade::nn
