#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/node.h"
#include "binade/autograd/trace.h"
#include "binade/core/error.h"
#include "binade/core/precision.h"
#include "binade/core/runtime.h"
#include "binade/nn/activation.h"
#include "binade/nn/attention.h"
#include "binade/nn/conv2d.h"
#include "binade/nn/conv_transpose2d.h"
#include "binade/nn/dropout.h"
#include "binade/nn/flatten.h"
#include "binade/nn/group_norm.h"
#include "binade/nn/losses.h"
#include "binade/nn/mlp.h"
#include "binade/nn/pooling.h"
#include "binade/nn/sequential.h"
#include "binade/optim/sgd.h"
#include "tests/core/op_check.h"

namespace binade::nn {
namespace {

class Layers : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 5}};
};
using Attention = Layers;

/// softmax(q k^T / sqrt(D)) v by plain loops in double, with the layer's projections.
std::vector<double> reference(MultiHeadAttention& a, const Tensor& x) {
  const auto& o = a.options();
  const std::int64_t batch = x.dim(0), tokens = x.dim(1), size = o.dim / o.heads;
  const std::int64_t groups = o.kv_heads > 0 ? o.kv_heads : o.heads;
  const NoGradGuard no_grad;
  const Tensor q = a.query(x).value(), k = a.key(x).value(), v = a.value(x).value();
  std::vector<double> mixed(static_cast<std::size_t>(batch * tokens * o.dim), 0);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < o.heads; ++h)
      for (std::int64_t i = 0; i < tokens; ++i) {
        const std::int64_t g = h / (o.heads / groups), last = o.causal ? i : tokens - 1;
        std::vector<double> p;
        double sum = 0;
        for (std::int64_t j = 0; j <= last; ++j) {
          double dot = 0;
          for (std::int64_t d = 0; d < size; ++d)
            dot += q.at(((b * tokens + i) * o.heads + h) * size + d) * k.at(((b * tokens + j) * groups + g) * size + d);
          p.push_back(std::exp(dot / std::sqrt(static_cast<double>(size))));
          sum += p.back();
        }
        for (std::int64_t j = 0; j <= last; ++j)
          for (std::int64_t d = 0; d < size; ++d)
            mixed[static_cast<std::size_t>(((b * tokens + i) * o.heads + h) * size + d)] +=
                p[static_cast<std::size_t>(j)] / sum * v.at(((b * tokens + j) * groups + g) * size + d);
      }
  return a.out(Tensor::from(mixed, {batch, tokens, o.dim}).to(DType::f32)).value().to_vector<double>();
}

TEST_F(Attention, FusedAndComposedEqualPlainLoopsAlsoWithGroupedHeads) {
  for (const bool composed : {false, true})
    for (const bool causal : {false, true})
      for (const std::int64_t kv_heads : {0, 1, 2}) {
        MultiHeadAttention a({.dim = 12, .heads = 4, .kv_heads = kv_heads, .causal = causal, .composed = composed});
        const Tensor x = test::noise({2, 5, 12}, 1, DType::f32, 2);
        const std::vector<double> wanted = reference(a, x);
        const Variable y = a(x);
        for (std::size_t i = 0; i < wanted.size(); ++i)
          EXPECT_NEAR(y.value().at(static_cast<std::int64_t>(i)), wanted[i], 1e-6) << composed << causal << kv_heads;
      }
}

TEST_F(Attention, ParametersHaveThePathsQueryKeyValueAndOut) {
  MultiHeadAttention a({.dim = 8, .heads = 2, .kv_heads = 1, .bias = false});
  std::vector<std::string> names;
  for (const auto& [name, parameter] : named_parameters(a)) names.push_back(name + parameter->shape().to_string());
  EXPECT_EQ(names, (std::vector<std::string>{"query.weight(8, 8)", "key.weight(4, 8)", "value.weight(4, 8)",
                                             "out.weight(8, 8)"}));
}

/// Output and gradients of a layer.
struct Pass {
  Tensor y, gx;
  StateDict gradients;
};
Pass pass_of(MultiHeadAttention& a, const Tensor& x, const PrecisionPolicy& policy = {}) {
  const PolicyScope scope(policy);
  for (const auto& [name, parameter] : named_parameters(a)) parameter->zero_grad();
  const Variable input(x, true);
  const Variable y = a(input);
  backward(y, test::noise(y.shape(), 9, y.dtype()));
  Pass pass{y.value(), input.grad(), {}};
  for (const auto& [name, parameter] : named_parameters(a))
    if (parameter->requires_grad()) pass.gradients.put(name, parameter->grad().clone());
  return pass;
}

void expect_same(const Pass& got, const Pass& want, const std::string& what, bool same_gx = true) {
  EXPECT_EQ(got.y.to_vector<float>(), want.y.to_vector<float>()) << what;
  for (const auto& [name, value] : want.gradients.values())
    EXPECT_EQ(got.gradients.tensor(name).to_vector<float>(), want.gradients.tensor(name).to_vector<float>())
        << what << ", " << name;
  for (std::int64_t i = 0; i < want.gx.numel(); ++i)
    ASSERT_NEAR(got.gx.at(i), want.gx.at(i), same_gx ? 0 : 1e-5) << what;
}

bool follows(const Tensor& a, const Tensor& b) {
  return static_cast<const std::byte*>(a.raw()) + a.bytes() == static_cast<const std::byte*>(b.raw());
}

TEST_F(Attention, ProjectionsHaveTheSameBitsForContiguousAndSeparateWeights) {
  for (const bool bias : {false, true})
    for (const std::int64_t kv_heads : {4, 2}) {
      const MultiHeadAttentionOptions options{
          .dim = 128, .heads = 4, .kv_heads = kv_heads, .causal = true, .bias = bias};
      const std::string what = fmt::format("{} key heads, {} bias", kv_heads, bias ? "with" : "without");
      MultiHeadAttention a(options), b(options);
      load_state_dict(b, state_dict(a));
      optim::Sgd optimizer(b, {.lr = 0.1});
      const Tensor x = test::noise({2, 5, 128}, 1, DType::f32);
      // The weight is a slice inside of its storage, so it is not adjacent to another weight.
      const Shape key = a.key.weight.value().shape();
      Tensor elsewhere = Tensor::zeros({key[0] + 1, key[1]}, DType::f32).narrow(1, key[0]);
      elsewhere.copy_from(b.key.weight.value());
      a.key.weight = Parameter(elsewhere);
      const Pass apart = pass_of(a, x), together = pass_of(b, x);
      EXPECT_FALSE(follows(a.query.weight.value(), a.key.weight.value()));
      for (const auto& [first, second] : {std::pair(&b.query, &b.key), std::pair(&b.key, &b.value)}) {
        EXPECT_TRUE(follows(first->weight.value(), second->weight.value())) << what;
        EXPECT_TRUE(follows(first->weight.grad(), second->weight.grad())) << what;
        EXPECT_TRUE(!bias || kv_heads != 4 || follows(first->bias.grad(), second->bias.grad())) << what;
      }
      expect_same(together, apart, what);

      b.key.weight = Parameter(b.key.weight.value().clone());
      expect_same(pass_of(b, x), apart, what + ", a weight elsewhere");
      // With three separate ops, only the gradient of x differs, because its sums have another order.
      expect_same(pass_of(a, x, PrecisionPolicy{}.with("linear", DType::f32)), apart, what + ", three ops", false);
      const PrecisionPolicy half{.name = "bf16", .low = DType::bf16};
      expect_same(pass_of(b, x, half), pass_of(a, x, half), what + ", bf16");
    }
}

TEST_F(Attention, FreezingAPartKeepsTheGradientsOfTheOthers) {
  MultiHeadAttention a({.dim = 16, .heads = 2});
  const Tensor x = test::noise({2, 5, 16}, 1, DType::f32);
  const Pass all = pass_of(a, x);
  a.key.weight.state()->requires_grad = a.query.bias.state()->requires_grad = false;
  Pass some = pass_of(a, x);
  EXPECT_FALSE(some.gradients.contains("key.weight"));
  for (const char* name : {"query.weight", "value.weight", "key.bias", "value.bias"})
    EXPECT_EQ(some.gradients.tensor(name).to_vector<float>(), all.gradients.tensor(name).to_vector<float>()) << name;
}

TEST_F(Attention, ProjectionsAreOneOpUnlessThePolicyDiffersBetweenThem) {
  MultiHeadAttention a({.dim = 16, .heads = 2}), composed({.dim = 16, .heads = 2, .composed = true});
  const Tensor x = test::noise({1, 3, 16}, 1, DType::f32);
  const auto modules = [&](MultiHeadAttention& layer, const PrecisionPolicy& policy) {
    const PolicyScope scope(policy);
    std::vector<std::string> ops;
    for (const std::shared_ptr<Node>& node : reachable_nodes(layer(x).state()->node))
      if (is_product(node->info().family)) ops.push_back(node->module_path() + "/" + node->info().name);
    std::ranges::reverse(ops);
    return ops;
  };
  using Ops = std::vector<std::string>;
  const Ops one{"/projections", "/attention", "out/linear"};
  const Ops three{"value/linear", "key/linear", "query/linear", "/attention", "out/linear"};
  const PrecisionPolicy half{.name = "bf16", .low = DType::bf16};
  EXPECT_EQ(modules(a, half), one);
  EXPECT_EQ(modules(a, half.with("*", DType::f32)), one);
  EXPECT_EQ(modules(a, half.with("out", DType::f32)), one);
  EXPECT_EQ(modules(a, half.with("projections", DType::f32)), one) << "which reads f32 then";
  EXPECT_EQ(modules(a, half.with("key", DType::f32)), three);
  EXPECT_EQ(modules(a, half.with("linear", DType::f32)), three);
  EXPECT_EQ(modules(a, {.name = "fp8", .low = DType::bf16, .fp8_linear = true}), three);
  EXPECT_EQ(modules(composed, half).size(), 6u) << "three linear, two matmul, and out";
}

TEST_F(Attention, AStateTrainedWithThreeOpsContinuesWithOne) {
  const PrecisionPolicy one, three = one.with("linear", DType::f32);
  const auto train = [](MultiHeadAttention& a, optim::Sgd& optimizer, const PrecisionPolicy& policy, int from, int to) {
    const PolicyScope scope(policy);
    for (int step = from; step < to; ++step) {
      optimizer.zero_grad();
      const Variable y = a(test::noise({2, 5, 16}, static_cast<std::uint64_t>(step), DType::f32));
      backward(y, test::noise(y.shape(), 9, DType::f32));
      optimizer.step();
    }
  };
  MultiHeadAttention a({.dim = 16, .heads = 4, .kv_heads = 2, .causal = true}), b(a.options());
  optim::Sgd old(a, {.lr = 1e-3, .momentum = 0.9}), fresh(b, {.lr = 1e-3, .momentum = 0.9});
  train(a, old, three, 0, 4);
  load_state_dict(b, state_dict(a));
  fresh.load_state(old.state());
  train(a, old, three, 4, 8);
  train(b, fresh, one, 4, 8);
  const StateDict want = state_dict(a), got = state_dict(b);
  for (const auto& [name, value] : want.values())
    EXPECT_EQ(got.tensor(name).to_vector<float>(), want.tensor(name).to_vector<float>())
        << name << ": the gradient of x, which alone is summed in another order, goes nowhere here";
}

TEST_F(Attention, TokenByTokenWithACacheEqualsTheWholeSequence) {
  for (const bool composed : {false, true}) {
    MultiHeadAttention a({.dim = 8, .heads = 2, .causal = true, .composed = composed});
    const Tensor x = test::noise({2, 6, 8}, 1, DType::f32);
    const Tensor whole = a(x).value();
    AttentionCache cache;
    const NoGradGuard no_grad;
    for (std::int64_t t = 0; t < 6; t += t == 0 ? 3 : 1) {  // a prompt of three tokens, then one at a time
      const std::int64_t count = t == 0 ? 3 : 1;
      const Tensor y = a(slice(x, 1, t, t + count), cache).value();
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t i = 0; i < count * 8; ++i)
          EXPECT_NEAR(y.at(b * count * 8 + i), whole.at((b * 6 + t) * 8 + i), 1e-6) << t;
    }
    EXPECT_EQ(cache.length(), 6);
  }
}

/// The last query sees all keys, the first ones see none. For these, the causal mask was once written in front of its
/// memory.
TEST_F(Attention, CausalQueriesMayOutnumberTheKeys) {
  const Tensor x = test::noise({1, 6, 8}, 1, DType::f32);
  for (const std::int64_t keys : {1, 3}) {
    Tensor results[2];
    for (const bool composed : {false, true}) {
      MultiHeadAttention a({.dim = 8, .heads = 2, .causal = true, .composed = composed});
      const auto first = [keys](auto&, const Variable&, const Variable& y) { return narrow(y, 1, 0, keys); };
      a.key.register_forward_hook(first);
      a.value.register_forward_hook(first);
      for (auto& [name, parameter] : named_parameters(a))
        parameter->mutable_value().copy_from(test::noise(parameter->shape(), 2, DType::f32));
      results[composed ? 1 : 0] = a(x).value();
    }
    for (std::int64_t i = 0; i < 6 * 8; ++i)
      if (i / 8 < 6 - keys)
        EXPECT_TRUE(std::isnan(results[1].at(i))) << i;
      else
        EXPECT_NEAR(results[1].at(i), results[0].at(i), 1e-6) << i;
  }
}

TEST_F(Attention, MaskedKeysHaveNoEffect) {
  for (const bool composed : {false, true}) {
    MultiHeadAttention a({.dim = 8, .heads = 2, .composed = composed});
    std::vector<float> mask(9, 0.0f);
    for (std::size_t i = 0; i < 3; ++i) mask[i * 3 + 2] = -std::numeric_limits<float>::infinity();
    const Tensor x = test::noise({1, 3, 8}, 1, DType::f32);
    Tensor changed = x.clone();
    changed.narrow(0, 1).mutable_data<float>()[17] = 5;  // token 2, which is masked for all queries
    const Variable first = a(x, Tensor::from(mask, {3, 3})), second = a(changed, Tensor::from(mask, {3, 3}));
    for (std::int64_t i = 0; i < 16; ++i) EXPECT_EQ(first.value().at(i), second.value().at(i));
  }
}

TEST_F(Attention, InvalidNumbersOfHeadsAreRefused) {
  EXPECT_THROW(MultiHeadAttention({.dim = 10, .heads = 4}), ArgumentError);
  EXPECT_THROW(MultiHeadAttention({.dim = 8, .heads = 4, .kv_heads = 3}), ArgumentError);
}

TEST_F(Layers, DropoutActsInTrainingOnly) {
  Dropout half({.p = 0.5});
  const Tensor x = Tensor::full({1000}, 1);
  double kept = 0;
  for (const float v : half(x).value().to_vector<float>()) {
    EXPECT_TRUE(v == 0 || v == 2);
    kept += v / 2;
  }
  EXPECT_NEAR(kept, 500, 80);  // five standard deviations
  half.eval();
  EXPECT_EQ(half(x).value().to_vector<float>(), x.to_vector<float>());
  EXPECT_THROW(Dropout({.p = 1}), ArgumentError);
}

TEST_F(Layers, MlpIsDownOfActivationOfUp) {
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
    Mlp mlp({.dim = 4, .activation = activation});
    EXPECT_EQ(mlp.up.weight.shape(), (Shape{16, 4}));
    const Tensor x = test::noise({3, 4}, 1, DType::f32);
    Linear plain({.in = 4, .out = 16});
    plain.weight = mlp.up.weight;
    plain.bias = mlp.up.bias;
    Variable hidden = plain(x);
    if (activation == Activation::kRelu) hidden = relu(hidden);
    if (activation == Activation::kGelu) hidden = gelu(hidden);
    if (activation == Activation::kGeluTanh) hidden = gelu_tanh(hidden);
    const Variable wanted = mlp.down(hidden), got = mlp(x);
    for (std::int64_t i = 0; i < 12; ++i) EXPECT_NEAR(got.value().at(i), wanted.value().at(i), 1e-6);
  }
}

TEST_F(Layers, SequentialRunsAndNamesItsPartsInOrder) {
  Sequential net(Conv2d({.in = 1, .out = 2, .kernel = 3, .padding = 1}), Relu(), MaxPool2d(),
                 ConvTranspose2d({.in = 2, .out = 3, .kernel = 2, .stride = 2}), AvgPool2d(), Upsample(), Flatten(),
                 Linear({.in = 48, .out = 5}));
  const Variable y = net(test::noise({2, 4, 4, 1}, 1, DType::f32));
  EXPECT_EQ(y.shape(), (Shape{2, 5}));
  EXPECT_EQ(y.state()->node->module_path(), "7");
  EXPECT_EQ(named_parameters(net).front().first, "0.weight");
  EXPECT_EQ(named_parameters(net).front().second->shape(), (Shape{2, 3, 3, 1}));
}

TEST_F(Layers, ActivationModulesEqualTheirFunctions) {
  const Variable x = test::noise({3, 5}, 1, DType::f32);
  const auto same = [](const Variable& a, const Variable& b) {
    EXPECT_EQ(a.value().to_vector<float>(), b.value().to_vector<float>());
  };
  Sequential net{Silu(), Tanh(), Sigmoid()};
  same(net(x), sigmoid(tanh(silu(x))));
  EXPECT_EQ(net[1].kind(), "Tanh");
}

TEST_F(Layers, GroupNormWithResidualAndReluEqualsTheSeparateOps) {
  GroupNorm plain({.groups = 2, .channels = 6}), fused({.groups = 2, .channels = 6, .relu = true});
  const Variable x = test::noise({2, 4, 3, 6}, 1, DType::f32), r = test::noise({2, 4, 3, 6}, 2, DType::f32);
  const Variable wanted = relu(plain(x) + r), got = fused(x, r);
  for (std::int64_t i = 0; i < x.value().numel(); ++i) EXPECT_NEAR(got.value().at(i), wanted.value().at(i), 1e-6);
  EXPECT_THROW(fused(x, test::noise({2, 4, 3, 3}, 2, DType::f32)), ShapeError);
}

TEST_F(Layers, LossesOutsideModulesHaveThePathLoss) {
  Variable x(test::noise({2, 3}, 1, DType::f32), true);
  const Variable loss = nn::mse(x, Tensor::zeros({2, 3}));
  EXPECT_EQ(loss.state()->node->module_path(), "loss");
  const ModulePathScope inside("auxiliary");
  EXPECT_EQ(nn::mse(x, Tensor::zeros({2, 3})).state()->node->module_path(), "auxiliary");
}

}  // namespace
}  // namespace binade::nn
