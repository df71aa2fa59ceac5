#include "binade/autograd/grad.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "binade/autograd/derivative.h"
#include "binade/autograd/functions/attention.h"
#include "binade/autograd/functions/conv.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/math.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/norm.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/scan.h"
#include "binade/autograd/functions/shape.h"
#include "binade/autograd/gradcheck.h"
#include "binade/autograd/observer.h"
#include "binade/autograd/recompute.h"
#include "binade/core/error.h"
#include "binade/core/runtime.h"
#include "binade/core/step_context.h"
#include "tests/autograd/test_ops.h"
#include "tests/core/op_check.h"
#include "tests/error_text.h"

namespace binade {
namespace {

using test::error_of;

using testing::leaf;

/// y = a b, a user's op with a derivative.
struct SmoothProduct : testing::Product {
  static constexpr OpInfo info = testing::Product::info;
  static Variables derivative(const RecordedCall& call) {
    return {call.gy() * call.input(1, 1), call.gy() * call.input(0, 0)};
  }
};

Variable noise(const Shape& shape, std::uint64_t tag, DType dtype = DType::f64) {
  return Variable(test::noise(shape, tag, dtype), true);
}

class Grad : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 1, .threads = 2}};
};

TEST_F(Grad, EqualsBackwardAndDoesNotChangeStoredGradients) {
  const Variable x = noise({5, 4}, 1, DType::f32), w = noise({3, 4}, 2, DType::f32);
  backward(sum(linear(x, w)));
  const std::vector<float> stored = w.grad().to_vector<float>();
  const auto loss = [&] { return mean(square(linear(x, w, {}, {.activation = Activation::kGelu}))); };
  const Variables got = grad(loss(), {w, x});
  EXPECT_EQ(w.grad().to_vector<float>(), stored);
  EXPECT_FALSE(got[0].requires_grad());
  for (Variable v : {w, x}) v.zero_grad();
  backward(loss());
  EXPECT_EQ(got[0].value().to_vector<float>(), w.grad().to_vector<float>());
  EXPECT_EQ(got[1].value().to_vector<float>(), x.grad().to_vector<float>());
}

TEST_F(Grad, AcceptsResultsOfOpsAsInputsAndSumsOverOutputs) {
  const Variable x = leaf({2, 3}), h = square(x), y = sum(h * h), z = sum(x);
  const Variables g = grad({y, z}, {h, x}, {.retain_graph = true});
  EXPECT_EQ(g[0].value().to_vector<float>(), (std::vector<float>{8, 18}));
  EXPECT_EQ(g[1].value().to_vector<float>(), (std::vector<float>{33, 109}));  // 4 x^3 + 1
  EXPECT_EQ(grad(y, y).item(), 1);
}

TEST_F(Grad, ThirdDerivativeAgreesWithItsClosedForm) {
  const Variable x(Tensor::from(std::vector<double>{-1.5, -0.3, 0, 0.8, 2}, {5}), true);
  Variable y = exp(-square(x));
  for (int order = 0; order < 3; ++order) y = grad(sum(y), x, {.create_graph = true});
  for (std::int64_t i = 0; i < 5; ++i) {
    const double at = x.value().at(i);
    EXPECT_NEAR(y.value().at(i), (12 * at - 8 * at * at * at) * std::exp(-at * at), 1e-13);
  }
}

TEST_F(Grad, DifferentiatesByGradOutputs) {
  const Variable x = leaf({1, 2}), v = leaf({3, 5});
  const Variable g = grad(square(x), x, {.grad_outputs = {v}, .create_graph = true});  // 2 x v
  EXPECT_EQ(grad(sum(g), v).value().to_vector<float>(), (std::vector<float>{2, 4}));
}

TEST_F(Grad, APenaltyReachesParametersThroughBackward) {
  const Variable x = leaf({1, -2, 3}), w = leaf({0.5f, 2, -1});
  const Variable slope = grad(sum(square(x) * w), x, {.create_graph = true});  // 2 x w
  backward(sum(w) + sum(square(slope)));
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{1 + 4, 1 + 64, 1 - 72}));  // 1 + 8 x^2 w
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, -64, 24}));             // 8 x w^2
}

TEST_F(Grad, UserOpsWithoutADerivativeAreRefusedByNameAndPath) {
  const Variable a = leaf({2, 3}), b = leaf({5, 7});
  const Variable g = grad(sum(square(apply_one<SmoothProduct>({}, {a, b}))), a, {.create_graph = true});
  EXPECT_EQ(grad(sum(g), b).value().to_vector<float>(), (std::vector<float>{40, 84}));  // 4 a b
  const ModulePathScope path("critic.gate");
  const Variable y = sum(testing::product(a, b));
  const std::string words = error_of([&] { grad(y, a, {.create_graph = true}); });
  EXPECT_NE(words.find("product [critic.gate]"), std::string::npos) << words;
  EXPECT_NE(words.find("member `derivative`"), std::string::npos) << words;
  EXPECT_EQ(grad(y, a).value().to_vector<float>(), (std::vector<float>{5, 7}));  // needs no derivative()
}

TEST_F(Grad, ErrorsSayWhatToDo) {
  const Variable x = leaf({1, 2}), unused = leaf({1});
  const auto says = [&](const Variables& outputs, const Variables& inputs, const GradOptions& options,
                        const std::string& part) {
    const std::string words = error_of([&] { grad(outputs, inputs, options); });
    EXPECT_NE(words.find(part), std::string::npos) << words;
  };
  says({x.detach()}, {x}, {}, "no history");
  says({sum(x)}, {x.detach()}, {}, "that require a gradient");
  says({square(x)}, {x}, {}, "pass grad_outputs");
  says({sum(x)}, {x}, {.grad_outputs = {x, x}}, "got 2 for 1 outputs");
  says({sum(x)}, {x}, {.grad_outputs = {x}}, "grad_outputs[0] of shape ()");
  says({sum(x)}, {unused}, {}, "pass allow_unused");
  EXPECT_FALSE(grad(sum(x), unused, {.allow_unused = true}).defined());
  const Variable y = sum(square(x));
  grad(y, x);
  says({y}, {x}, {}, "retain_graph");
  const Variable segment = recompute([](const Variable& v) { return square(v); }, x);
  says({sum(segment)}, {x}, {}, "without recompute()");
}

TEST_F(Grad, AChangedParameterIsAnError) {
  Variable x = leaf({1, 2});
  const Variable y = sum(square(x));
  x.state()->value.fill(3);
  EXPECT_NE(error_of([&] { grad(y, x, {.create_graph = true}); }).find("written in place"), std::string::npos);
  const PolicyScope policy(PrecisionPolicy{.name = "bf16", .low = DType::bf16});
  Variable a = noise({5, 4}, 1, DType::f32), w = noise({3, 4}, 2, DType::f32);
  const Variable z = sum(square(linear(a, w)));
  w.state()->value = w.value().clone();
  w.state()->low = Tensor();
  EXPECT_NE(error_of([&] { grad(z, a, {.create_graph = true}); }).find("was changed after forward"), std::string::npos);
}

/// Records the dtype in which each matmul and sum stores its result.
struct Dtypes : TapeObserver {
  std::vector<std::string> stored;
  void after_forward(const OpCall& call, std::span<const Tensor>, Tensors& out, const Observation&) override {
    if (is_product(call.info.family) || call.info.family == OpFamily::kReduction)
      stored.push_back(fmt::format("{}:{}", call.info.name, name_of(out[0].dtype())));
  }
};

TEST_F(Grad, ObeysThePrecisionPolicy) {
  const PolicyScope policy(PrecisionPolicy{.name = "bf16", .low = DType::bf16});
  const Variable x = noise({8, 6}, 1, DType::f32), w = noise({4, 6}, 2, DType::f32), b = noise({4}, 3, DType::f32);
  const Variable y = sum(square(linear(x * 1, w, b, {.activation = Activation::kGelu})));
  Dtypes dtypes;
  const Variables g = [&] {
    const ObserverScope scope(dtypes);
    return grad(y, {x, w, b}, {.create_graph = true});
  }();
  EXPECT_EQ(dtypes.stored, (std::vector<std::string>{"matmul:bf16", "matmul:f32", "sum:f32"}));
  for (const Variable& v : g) EXPECT_EQ(v.dtype(), DType::f32);
  backward(sum(square(g[0])) + sum(square(g[1])));
  EXPECT_EQ(w.grad().dtype(), DType::f32);

  // The same in f64: the results may differ by rounding to bf16 only.
  const PolicyScope exact(PrecisionPolicy{});
  Variables wide;
  for (const Variable& v : {x, w, b}) wide.emplace_back(v.value().to(DType::f64), true);
  const Variable z = sum(square(linear(wide[0], wide[1], wide[2], {.activation = Activation::kGelu})));
  const Variables h = grad(z, wide, {.create_graph = true});
  backward(sum(square(h[0])) + sum(square(h[1])));
  double error = 0, norm = 0;
  for (std::int64_t i = 0; i < w.value().numel(); ++i) {
    const double want = wide[1].grad().at(i);
    error += std::pow(w.grad().at(i) - want, 2);
    norm += want * want;
  }
  EXPECT_LT(std::sqrt(error / norm), 0.02);
}

void expect_second(const std::function<Variable(const Variables&)>& f, const std::vector<Tensor>& inputs) {
  const GradcheckResult result = gradgradcheck(f, inputs, {.rtol = 2e-6, .atol = 1e-6, .max_elements = 12});
  EXPECT_TRUE(result.passed) << result.message;
  EXPECT_GT(result.checked, 0);
}

TEST_F(Grad, SecondDerivativesOfConsecutiveLayersAreRight) {
  const std::vector<Tensor> mlp{test::noise({3, 4}, 1), test::noise({5, 4}, 2), test::noise({5}, 3),
                                test::noise({2, 5}, 4)};
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu})
    expect_second(
        [activation](const Variables& v) {  // the second layer recomputes its input
          return linear(linear(v[0], v[1], v[2], {.activation = activation}), v[3], {}, {.activation = activation});
        },
        mlp);
  expect_second(
      [](const Variables& v) {
        const Variable y = group_norm(conv2d(v[0], v[1], {}, {.stride = 2, .padding = 1}), 2, v[2], {}, {.relu = true});
        return avg_pool2d(upsample(conv_transpose2d(y, v[1]), 2, UpsampleMode::kBilinear), {.kernel = 3, .stride = 2});
      },
      {test::noise({2, 5, 6, 4}, 5), test::noise({4, 3, 3, 4}, 6), test::noise({4}, 7)});
  expect_second(
      [](const Variables& v) {
        const Variable p = softmax(matmul(v[0], v[1], {.transpose_b = true}));
        return add_layer_norm(matmul(dropout(p, 0.3), v[1]), v[0], v[2]).y;
      },
      {test::noise({2, 3, 4}, 8), test::noise({3, 4}, 9), test::noise({4}, 10)});
}

/// The derivative must remove the probabilities that forward removed, in each layout of the inputs.
TEST_F(Grad, SecondDerivativesOfAttentionWithDropoutAreRight) {
  const Tensor q = test::noise({2, 3, 4, 2}, 21), k = test::noise({2, 5, 2, 2}, 22), v = test::noise({2, 5, 2, 2}, 23);
  for (const bool causal : {false, true})
    expect_second([causal](
                      const Variables& x) { return attention(x[0], x[1], x[2], {.causal = causal, .dropout = 0.4f}); },
                  {q, k, v});
  const Tensor mask = test::noise({2, 4, 3, 5}, 24);
  expect_second([&](const Variables& x) { return attention(x[0], x[1], x[2], {.dropout = 0.3f}, mask); }, {q, k, v});
  expect_second(
      [](const Variables& x) {
        return attention(narrow(x[0], 2, 0, 4), narrow(x[0], 2, 4, 4), narrow(x[0], 2, 8, 4),
                         {.dropout = 0.5f, .heads = 2});
      },
      {test::noise({2, 3, 12}, 25)});
}

/// Maxima of overlapping windows, with padding: each element may be the maximum of several windows.
TEST_F(Grad, SecondDerivativesOfMaxPoolingAreRight) {
  for (const PoolOptions& options :
       {PoolOptions{.kernel = 3, .stride = 2, .padding = 1}, PoolOptions{.kernel = {2, 3}, .stride = {1, 2}},
        PoolOptions{.kernel = {17, 16}, .stride = 1, .padding = {8, 8}}})  // the last one stores positions as i32
    expect_second([&](const Variables& v) { return max_pool2d(square(v[0]) * v[0], options); },
                  {test::noise({2, 5, 6, 3}, 31)});
  const Variable x = noise({1, 4, 4, 2}, 32), y = sum(square(max_pool2d(x)));
  const Variable g = grad(y, x, {.create_graph = true});
  backward(sum(g * g) * 0.5);  // the gradient of 1/2 |2 m|^2 by x is 4 m at the maxima m
  const Variable again(x.value(), true), same = sum(square(max_pool2d(again)));
  backward(same);
  for (std::int64_t i = 0; i < x.value().numel(); ++i) EXPECT_EQ(x.grad().at(i), 2 * again.grad().at(i)) << i;
}

TEST_F(Grad, SecondDerivativesOfDiceAreRight) {
  expect_second([](const Variables& v) { return dice(sigmoid(v[0]), sigmoid(v[1]), 0.5); },
                {test::noise({3, 4}, 41), test::noise({3, 4}, 42)});
  const Tensor labels = Tensor::from({1.f, 0.f, 0.f, 1.f}, {2, 2}).to(DType::u8);
  expect_second([&](const Variables& v) { return dice(sigmoid(v[0]), labels); }, {test::noise({2, 2}, 43)});
}

/// prod() with and without zeros among the factors, over all axes and over some axes, and with an odd number of
/// factors.
TEST_F(Grad, SecondDerivativesOfProductsAreRight) {
  Tensor zeros = test::noise({2, 5, 3}, 51);
  for (const std::int64_t at : {0, 4, 7, 9}) zeros.mutable_data<double>()[at] = 0;
  for (const Tensor& x : {test::noise({2, 5, 3}, 52), zeros}) {
    expect_second([](const Variables& v) { return prod(v[0]); }, {x});
    expect_second([](const Variables& v) { return prod(v[0], {1}); }, {x});
    expect_second([](const Variables& v) { return prod(v[0], {0, -1}, true); }, {x});
    expect_second([](const Variables& v) { return cumprod(v[0], 1); }, {x});
    expect_second([](const Variables& v) { return cumprod(v[0], -1) * logcumsumexp(v[0], 0); }, {x});
  }
  expect_second([](const Variables& v) { return logcumsumexp(v[0] * 30.0, 1); }, {test::noise({2, 7}, 53)});
}

/// grad() does not visit the graph that computed its inputs; here an earlier backward has freed that graph.
TEST_F(Grad, StopsAtInputsThatAreResults) {
  const Variable a = noise({3}, 61), x = a * 2.0, y = sum(square(x));
  grad(sum(x), a);
  const Variable g = grad(y, x);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(g.value().at(i), 2 * x.value().at(i)) << i;
}

/// Terms of -inf, also at the beginning, do not change the derivatives of the other terms, and their own derivatives
/// are 0.
TEST_F(Grad, DerivativesOfLogcumsumexpAreFiniteBesideMinusInfinity) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto from = [](const std::vector<double>& values) {
    return Tensor::from(values, Shape{static_cast<std::int64_t>(values.size())});
  };
  const auto gradient = [](const Variable& x, const Tensor& w, bool create_graph) {
    return grad(logcumsumexp(x, 0), x, {.grad_outputs = {w}, .create_graph = create_graph});
  };
  const Variable x(from({-inf, -inf, 0.5, -inf, 2}), true), finite(from({0.5, 2}), true);
  const Tensor w = from({3, -1, 0.25, 0.5, 2}), finite_w = from({0.75, 2});
  const Variable g = gradient(x, w, true), finite_g = gradient(finite, finite_w, true);
  const Tensor plain = gradient(x, w, false).value();
  const Tensor second = grad(sum(g * g), x, {}).value(), finite_second = grad(sum(finite_g * finite_g), finite).value();
  for (const auto& [at, of_finite] : std::vector<std::pair<int, int>>{{0, -1}, {1, -1}, {2, 0}, {3, -1}, {4, 1}}) {
    const bool has = of_finite >= 0;
    EXPECT_NEAR(plain.at(at), has ? finite_g.value().at(of_finite) : 0, 1e-14) << at;
    EXPECT_NEAR(g.value().at(at), has ? finite_g.value().at(of_finite) : 0, 1e-14) << at;
    EXPECT_NEAR(second.at(at), has ? finite_second.at(of_finite) : 0, 1e-14) << at;
  }
}

TEST_F(Grad, SecondDerivativesOfDigammaAreRight) {
  expect_second([](const Variables& v) { return digamma(v[0]); },
                {Tensor::from(std::vector<double>{0.3, 0.5, 1, 2.5, 7, 40, -0.4, -2.7}, {8})});
  const Variable x(Tensor::from(std::vector<double>{1}, {1}), true);
  Variable y = sum(digamma(x));
  for (int order = 0; order < 2; ++order) y = sum(grad(y, x, {.create_graph = true}));
  EXPECT_NEAR(y.item(), -2.4041138063191885, 1e-12);  // -2 zeta(3)
}

TEST_F(Grad, DifferentiatesByALeafThatOpsReadInTwoDtypes) {
  const PolicyScope policy(PrecisionPolicy{.low = DType::bf16}.with("head", DType::f16));
  const Variable x = noise({5, 4}, 1, DType::f32), w = noise({4, 3}, 2, DType::f32);
  Variable head;
  {
    const ModulePathScope scope("head");
    head = matmul(x, w);
  }
  const Variable both = sum(cast(head, DType::f32) * cast(matmul(x, w), DType::f32));
  const Variable g = grad(both, w, {.create_graph = true});
  EXPECT_EQ(g.shape(), w.shape());
  EXPECT_TRUE(grad(sum(g * g), w).defined());
}

TEST_F(Grad, CallsHooksAndRefusesToDifferentiateTheirResult) {
  const Variable x = noise({4}, 1);
  Variable y = x * 3.0;
  y.register_hook([](const Variable& gradient) { return gradient * 2.0; });
  const Variable loss = sum(y);
  const std::string words = error_of([&] { grad(loss, x, {.create_graph = true}); });
  EXPECT_NE(words.find("remove the hook"), std::string::npos) << words;
  EXPECT_EQ(grad(loss, x).value().at(0), 6);
}

}  // namespace
}  // namespace binade
