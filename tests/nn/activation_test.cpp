#include "binade/nn/activation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "binade/core/runtime.h"
#include "binade/nn/dropout.h"
#include "binade/nn/flatten.h"
#include "binade/nn/sequential.h"
#include "tests/core/op_check.h"

namespace binade::nn {
namespace {

class Activations : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 5}};
};

struct Example {
  std::unique_ptr<Module> module{};
  std::string kind{};
  std::function<double(double)> formula{};
};

template <class M>
Example example(M module, const std::string& kind, std::function<double(double)> formula) {
  return {std::make_unique<M>(std::move(module)), kind, std::move(formula)};
}

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

std::vector<Example> examples() {
  const auto clamp = [](double x, double low, double high) { return std::min(std::max(x, low), high); };
  std::vector<Example> all;
  all.push_back(example(Relu(), "Relu", [](double x) { return std::max(x, 0.0); }));
  all.push_back(example(Relu6(), "Relu6", [=](double x) { return clamp(x, 0, 6); }));
  all.push_back(example(Silu(), "Silu", [](double x) { return x * sigma(x); }));
  all.push_back(example(Mish(), "Mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }));
  all.push_back(example(Selu(), "Selu", [](double x) {
    return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
  }));
  all.push_back(example(Hardswish(), "Hardswish", [=](double x) { return x * clamp(x + 3, 0, 6) / 6; }));
  all.push_back(example(Hardsigmoid(), "Hardsigmoid", [=](double x) { return clamp(x + 3, 0, 6) / 6; }));
  all.push_back(example(Sigmoid(), "Sigmoid", sigma));
  all.push_back(example(LogSigmoid(), "LogSigmoid", [](double x) { return std::log(sigma(x)); }));
  all.push_back(example(Tanh(), "Tanh", [](double x) { return std::tanh(x); }));
  all.push_back(example(Tanhshrink(), "Tanhshrink", [](double x) { return x - std::tanh(x); }));
  all.push_back(example(Softsign(), "Softsign", [](double x) { return x / (1 + std::abs(x)); }));
  all.push_back(example(Gelu(), "Gelu", [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }));
  all.push_back(example(LeakyRelu(), "LeakyRelu", [](double x) { return x > 0 ? x : 0.01 * x; }));
  all.push_back(example(LeakyRelu({.slope = 0.2}), "LeakyRelu", [](double x) { return x > 0 ? x : 0.2 * x; }));
  all.push_back(example(Elu({.alpha = 2}), "Elu", [](double x) { return x > 0 ? x : 2 * std::expm1(x); }));
  all.push_back(example(Celu({.alpha = 2}), "Celu", [](double x) { return x > 0 ? x : 2 * std::expm1(x / 2); }));
  all.push_back(example(Softplus(), "Softplus", [](double x) { return std::log1p(std::exp(x)); }));
  all.push_back(example(Softplus({.beta = 2, .threshold = 3}), "Softplus",
                        [](double x) { return 2 * x > 3 ? x : std::log1p(std::exp(2 * x)) / 2; }));
  all.push_back(example(Hardtanh(), "Hardtanh", [=](double x) { return clamp(x, -1, 1); }));
  all.push_back(example(Hardtanh({.low = -2, .high = 0.5}), "Hardtanh", [=](double x) { return clamp(x, -2, 0.5); }));
  all.push_back(example(Hardshrink(), "Hardshrink", [](double x) { return std::abs(x) > 0.5 ? x : 0; }));
  all.push_back(example(Softshrink({.lambda = 1}), "Softshrink", [](double x) {
    return x > 1 ? x - 1 : x < -1 ? x + 1 : 0;
  }));
  all.push_back(
      example(Threshold({.threshold = 1, .value = -7}), "Threshold", [](double x) { return x > 1 ? x : -7; }));
  all.push_back(example(Prelu(), "Prelu", [](double x) { return x > 0 ? x : 0.25 * x; }));
  all.push_back(example(Identity(), "Identity", [](double x) { return x; }));
  return all;
}

TEST_F(Activations, EqualTheirFormulasInBothModesAndPropagateNan) {
  Tensor x = test::noise({3, 5}, 1, DType::f32, 5);
  for (Example& e : examples()) {
    SCOPED_TRACE(e.kind);
    EXPECT_EQ(e.module->kind(), e.kind);
    for (const bool training : {true, false}) {
      e.module->train(training);
      const Variable y = (*e.module)(x);
      for (std::int64_t i = 0; i < x.numel(); ++i)
        EXPECT_NEAR(y.value().at(i), e.formula(x.at(i)), 1e-6 * (1 + std::abs(x.at(i))));
    }
    EXPECT_TRUE(std::isnan((*e.module)(Tensor::full({1}, std::nan(""))).item()));
  }
}

TEST_F(Activations, HaveTheGradientsOfTheirFormulas) {
  for (Example& e : examples()) {
    SCOPED_TRACE(e.kind);
    if (e.kind == "Identity") continue;  // its result is x itself, which has no history
    test::check_gradients([&](const std::vector<Variable>& in) { return std::vector{(*e.module)(in[0])}; },
                          {test::noise({4, 3}, 2, DType::f64, 4)});
  }
}

TEST_F(Activations, OfAnAxisReadTheirOption) {
  const Variable x = test::noise({2, 4, 3}, 1, DType::f32);
  const auto same = [](const Variable& a, const Variable& b) {
    EXPECT_EQ(a.value().to_vector<float>(), b.value().to_vector<float>());
  };
  same(Softmax({.axis = 1})(x), softmax(x, 1));
  same(Softmin({.axis = 1})(x), softmax(-x, 1));
  same(LogSoftmax()(x), log_softmax(x, -1));
  const Variable y = Glu({.axis = 1})(x);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 3}));
  EXPECT_NEAR(y.value().at(0), x.value().at(0) * sigma(x.value().at(6)), 1e-6);
  EXPECT_THROW(Glu()(x), ShapeError) << "an odd extent";
  EXPECT_THROW(Softmax({.axis = 3})(x), Error);
}

TEST_F(Activations, PreluHasOneSlopePerChannelWhichIsTrained) {
  Prelu prelu({.channels = 3, .init = 0.5});
  const Tensor x = Tensor::from({{-1.f, 2.f, -3.f}, {-4.f, -5.f, 6.f}});
  backward(sum(prelu(x)));
  EXPECT_EQ(prelu.weight.grad().to_vector<float>(), (std::vector<float>{-5, -5, -3}));
  EXPECT_THROW(prelu(Tensor::zeros({2, 4})), ShapeError);
  EXPECT_THROW(Prelu({.channels = 0}), ArgumentError);
  Prelu other({.channels = 3});
  load_state_dict(other, state_dict(prelu));
  EXPECT_EQ(other(x).value().to_vector<float>(), prelu(x).value().to_vector<float>());
}

TEST_F(Activations, PreluKeepsTheDtype) {
  const Variable x(test::noise({3, 4}, 1, DType::bf16), true);
  const Variable y = Prelu({.channels = 4})(x);
  EXPECT_EQ(y.dtype(), DType::bf16);
  backward(sum(y));
  EXPECT_TRUE(x.grad().defined());
}

TEST_F(Activations, RefuseInvalidOptionsWithTheirName) {
  const Tensor x = Tensor::zeros({2});
  EXPECT_THROW(Celu({.alpha = 0})(x), ArgumentError);
  EXPECT_THROW(Hardtanh({.low = 1, .high = 0})(x), ArgumentError);
  EXPECT_THROW(Softshrink({.lambda = -1})(x), ArgumentError);
  EXPECT_THROW(Softplus({.beta = 0})(x), ArgumentError);
}

class Dropouts : public Activations {};

TEST_F(Dropouts, OfChannelsDropWholeChannelsInTrainingOnly) {
  Dropout2d drop({.p = 0.25});
  const Variable x(Tensor::full({16, 3, 2, 50}, 1), true);
  const Variable y = drop(x);
  backward(sum(y));
  double kept = 0;
  for (std::int64_t n = 0; n < 16; ++n)
    for (std::int64_t c = 0; c < 50; ++c) {
      const double first = y.value().at((n * 6) * 50 + c);
      EXPECT_TRUE(first == 0 || std::abs(first - 1 / 0.75) < 1e-6) << first;
      for (std::int64_t p = 0; p < 6; ++p) {
        EXPECT_EQ(y.value().at((n * 6 + p) * 50 + c), first);
        EXPECT_EQ(x.grad().at((n * 6 + p) * 50 + c), first);
      }
      kept += first > 0 ? 1 : 0;
    }
  EXPECT_NEAR(kept, 600, 62);  // 800 channels, five standard deviations of 12.2
  drop.eval();
  EXPECT_EQ(drop(x).value().to_vector<float>(), x.value().to_vector<float>());
  drop.train();
  EXPECT_THROW(drop(Tensor::zeros({3})), ShapeError);
  EXPECT_THROW(Dropout2d({.p = -0.1}), ArgumentError);
  EXPECT_EQ(drop.kind(), "Dropout2d");
}

TEST_F(Dropouts, OfSeluNetworksKeepMeanAndVariance) {
  AlphaDropout drop({.p = 0.3});
  const Variable x(test::noise({100000}, 1, DType::f32, std::sqrt(3.0)), true);  // uniform with variance 1
  const Variable y = drop(x);
  backward(sum(y));
  double mean = 0, square = 0;
  const double a = -1.7580993408473766, s = 1 / std::sqrt(0.7 * (1 + 0.3 * a * a));
  for (std::int64_t i = 0; i < x.value().numel(); ++i) {
    const double v = y.value().at(i), dropped = s * (a - a * 0.3), kept = s * (x.value().at(i) - a * 0.3);
    const bool is_kept = x.grad().at(i) != 0;
    EXPECT_NEAR(v, is_kept ? kept : dropped, 1e-6);
    mean += v / 100000;
    square += v * v / 100000;
  }
  EXPECT_NEAR(mean, 0, 0.02);    // six standard deviations of 1 / sqrt(100000)
  EXPECT_NEAR(square, 1, 0.03);  // likewise, for a variance of the squares of about 2
  drop.eval();
  EXPECT_EQ(drop(x).value().to_vector<float>(), x.value().to_vector<float>());
  EXPECT_THROW(AlphaDropout({.p = 1}), ArgumentError);
}

TEST_F(Activations, UnflattenIsTheInverseOfFlattenAndCosinesAreOfVectors) {
  const Variable x = test::noise({2, 12}, 1, DType::f32);
  Sequential net(Unflatten({.axis = 1, .sizes = {3, -1}}), Flatten());
  EXPECT_EQ(net[0](x).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(net(x).value().to_vector<float>(), x.value().to_vector<float>());
  EXPECT_THROW(Unflatten({.sizes = {5, 5}})(x), Error);
  EXPECT_THROW(Unflatten({.axis = 1}), ArgumentError);

  CosineSimilarity cosine({.axis = -1});
  const Variable a(Tensor::from({{1.f, 0.f}, {3.f, 4.f}, {0.f, 0.f}}), true),
      b = Tensor::from({{1.f, 1.f}, {-3.f, -4.f}, {1.f, 2.f}});
  const Variable y = cosine(a, b);
  EXPECT_NEAR(y.value().at(0), std::sqrt(0.5), 1e-6);
  EXPECT_NEAR(y.value().at(1), -1, 1e-6);
  EXPECT_EQ(y.value().at(2), 0);
  backward(sum(y));
  for (const float g : a.grad().to_vector<float>()) EXPECT_TRUE(std::isfinite(g)) << "a vector of length 0 too";
}

}  // namespace
}  // namespace binade::nn
