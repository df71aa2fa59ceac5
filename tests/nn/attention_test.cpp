#include "binade/nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/autograd/node.h"
#include "binade/core/runtime.h"
#include "tests/core/op_check.h"
#include "tests/error_text.h"

/// Separate keys and values, positions, windows and masks of MultiHeadAttention. tests/golden compares results and
/// gradients with PyTorch's; layers_test.cpp has the tests of plain self-attention.
namespace binade::nn {
namespace {

using Options = MultiHeadAttentionOptions;

class AttentionOptions : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 5}};

  static std::vector<Options> all() {
    const Options plain{.dim = 12, .heads = 3};
    std::vector<Options> list(8, plain);
    list[0].rotary.emplace();
    list[1].rotary = {.base = 100, .width = 2, .pairs = RotaryPairs::kNeighbors};
    list[2].alibi = true;
    list[3].window = 2;
    list[4].window = 3;
    list[4].alibi = true;
    list[5] = {.dim = 12, .heads = 4, .kv_heads = 2, .head_dim = 2, .rotary = RotaryOptions{}};
    list[6].softcap = 2;
    list[7].value_head_dim = 5;
    return list;
  }
};

void expect_near(const Tensor& got, const Tensor& want, double tolerance, const std::string& what = "") {
  ASSERT_EQ(got.shape(), want.shape()) << what;
  for (std::int64_t i = 0; i < want.numel(); ++i) ASSERT_NEAR(got.at(i), want.at(i), tolerance) << what << " " << i;
}

/// Results and gradients of x for the same parameters.
std::pair<Tensor, Tensor> pass(MultiHeadAttention& a, const Tensor& x, const AttentionMasks& masks) {
  const Variable input(x, true);
  const Variable y = a(input, masks);
  backward(y, test::noise(y.shape(), 9, y.dtype()));
  return {y.value(), input.grad()};
}

TEST_F(AttentionOptions, FusedAndComposedAgree) {
  const Tensor x = test::noise({2, 5, 12}, 1, DType::f32);
  const Tensor visible = Tensor::from({{1.f, 1.f, 0.f, 1.f, 1.f}, {1.f, 1.f, 1.f, 1.f, 0.f}}).to(DType::boolean);
  for (const bool causal : {false, true})
    for (const bool masked : {false, true})
      for (Options o : all()) {
        o.causal = causal;
        MultiHeadAttention fused(o);
        o.composed = true;
        MultiHeadAttention composed(o);
        load_state_dict(composed, state_dict(fused));
        const AttentionMasks masks{.key_mask = masked ? Variable(visible) : Variable()};
        const auto [y, gx] = pass(fused, x, masks);
        const auto [z, gz] = pass(composed, x, masks);
        const std::string what = fmt::format("causal {}, masked {}, window {}, alibi {}, rotary {}, softcap {}", causal,
                                             masked, o.window, o.alibi, o.rotary.has_value(), o.softcap);
        expect_near(y, z, 2e-6, what);
        expect_near(gx, gz, 1e-5, what);
      }
}

TEST_F(AttentionOptions, TokenByTokenWithACacheEqualsTheWholeSequence) {
  const Tensor x = test::noise({2, 7, 12}, 1, DType::f32);
  const NoGradGuard no_grad;
  for (Options o : all()) {
    o.causal = true;
    MultiHeadAttention a(o);
    const Tensor whole = a(x).value();
    AttentionCache cache;
    for (std::int64_t t = 0; t < 7; t += t == 0 ? 3 : 1) {  // a prompt of three tokens, then one at a time
      const std::int64_t count = t == 0 ? 3 : 1;
      expect_near(a(slice(x, 1, t, t + count), cache).value(), slice(Variable(whole), 1, t, t + count).value(), 2e-6,
                  fmt::format("token {}, window {}, alibi {}", t, o.window, o.alibi));
    }
    EXPECT_EQ(cache.length(), 7);
  }
}

TEST_F(AttentionOptions, KeysAndValuesOfAnotherSequenceMayBeMadeOnce) {
  MultiHeadAttention a({.dim = 8, .heads = 2, .key_dim = 6, .value_dim = 5});
  EXPECT_EQ(a.key.weight.shape(), (Shape{8, 6}));
  EXPECT_EQ(a.value.weight.shape(), (Shape{8, 5}));
  const Variable x = test::noise({2, 3, 8}, 1, DType::f32), keys = test::noise({2, 4, 6}, 2, DType::f32),
                 values = test::noise({2, 4, 5}, 3, DType::f32);
  const Variable y = a(x, keys, values);
  EXPECT_EQ(y.shape(), (Shape{2, 3, 8}));
  const AttentionCache cache = a.cache_of(keys, values);
  expect_near(a.attend_to(x, cache).value(), y.value(), 1e-6);
  EXPECT_EQ(cache.length(), 4);
  const std::string text = test::error_of([&] { a(x); });
  EXPECT_NE(text.find("keys of width 6 and values of width 5"), std::string::npos) << text;
  EXPECT_THROW(a(x, keys, test::noise({2, 3, 5}, 1, DType::f32)), ShapeError) << "a value for each key";
  EXPECT_THROW(a.attend_to(x, {}), ArgumentError);
}

TEST_F(AttentionOptions, HiddenKeysHaveNoEffect) {
  for (const bool composed : {false, true})
    for (const DType dtype : {DType::boolean, DType::u8, DType::i32, DType::i64}) {
      MultiHeadAttention a({.dim = 8, .heads = 2, .composed = composed});
      const Tensor x = test::noise({2, 3, 8}, 1, DType::f32);
      Tensor changed = x.clone();
      changed.narrow(1, 1).fill(0.5);  // the second sample: only its first token is visible
      changed.narrow(1, 1).reshape({3, 8}).narrow(0, 1).copy_from(x.narrow(1, 1).reshape({3, 8}).narrow(0, 1));
      const Tensor visible = Tensor::from({{1.f, 1.f, 1.f}, {1.f, 0.f, 0.f}}).to(dtype);
      const Variable query = test::noise({2, 2, 8}, 2, DType::f32);
      if (dtype == DType::boolean || dtype == DType::u8)
        expect_near(a(query, x, x, {.key_mask = visible}).value(),
                    a(query, changed, changed, {.key_mask = visible}).value(), 0);
      const Tensor full = Tensor::from({{1.f, 0.f, 1.f}, {1.f, 1.f, 1.f}}).to(dtype);  // a mask of truth values (T, S)
      const Tensor added = Tensor::from({{0.f, -std::numeric_limits<float>::infinity(), 0.f}, {0.f, 0.f, 0.f}});
      expect_near(a(query, x, x, {.mask = full}).value(), a(query, x, x, {.mask = added}).value(), 1e-6);
    }
}

TEST_F(AttentionOptions, AMaskOfOneKeyBroadcasts) {
  const Tensor x = test::noise({2, 3, 8}, 1, DType::f32);
  for (const bool composed : {false, true}) {
    MultiHeadAttention a({.dim = 8, .heads = 2, .composed = composed});
    const Tensor y = a(x, {.mask = Tensor::full({3, 1}, 2)}).value();
    expect_near(y, a(x).value(), 1e-6, "a number added to a row of logits changes nothing");
    expect_near(a(x, {}).value(), a(x).value(), 0);
  }
}

TEST_F(AttentionOptions, ACallThatThrowsLeavesTheCache) {
  MultiHeadAttention a({.dim = 8, .heads = 2});
  const NoGradGuard no_grad;
  AttentionCache cache;
  a(test::noise({1, 3, 8}, 1, DType::f32), cache);
  EXPECT_THROW(a(test::noise({1, 2, 8}, 2, DType::f32), cache, {.key_mask = Tensor::zeros({1, 4}, DType::boolean)}),
               ShapeError);
  EXPECT_EQ(cache.length(), 3);
}

TEST_F(AttentionOptions, RotaryRefusesMoreQueriesThanKeysOfACache) {
  MultiHeadAttention a({.dim = 8, .heads = 2, .rotary = RotaryOptions{}});
  const Variable keys = test::noise({1, 2, 8}, 1, DType::f32);
  const AttentionCache cache = a.cache_of(keys, keys);
  const Variable two = test::noise({1, 2, 8}, 2, DType::f32), three = test::noise({1, 3, 8}, 3, DType::f32);
  expect_near(a.attend_to(two, cache).value(), a(two, keys, keys).value(), 1e-6);
  const std::string text = test::error_of([&] { a.attend_to(three, cache); });
  EXPECT_NE(text.find("3 queries and 2 keys"), std::string::npos) << text;
}

TEST_F(AttentionOptions, ALearnedMaskGetsAGradient) {
  MultiHeadAttention a({.dim = 8, .heads = 2});
  const Tensor x = test::noise({1, 3, 8}, 1, DType::f32);
  const Variable bias(test::noise({2, 3, 3}, 2, DType::f32), true);
  backward(sum(a(x, bias)));
  ASSERT_TRUE(bias.grad().defined());
  double largest = 0;
  for (const float g : bias.grad().to_vector<float>()) largest = std::max(largest, std::abs(static_cast<double>(g)));
  EXPECT_GT(largest, 1e-4);
}

TEST_F(AttentionOptions, ComputeInHalfPrecisionAndKeepTheirState) {
  const Tensor x = test::noise({2, 5, 12}, 1, DType::f32);
  for (const Options& o : all()) {
    MultiHeadAttention a(o), b(o);
    load_state_dict(b, state_dict(a));
    const Tensor y = a(x).value();
    EXPECT_EQ(b(x).value().to_vector<float>(), y.to_vector<float>());
    const PolicyScope half({.name = "bf16", .low = DType::bf16});
    // Operands and probabilities have relative errors of 2^-9, and results are below 1.
    expect_near(b(x).value().to(DType::f32), y, 0.03);
  }
}

TEST_F(AttentionOptions, DropWeightsInTrainingOnly) {
  MultiHeadAttention a({.dim = 8, .heads = 2, .dropout = 0.5, .rotary = RotaryOptions{}});
  const Tensor x = test::noise({1, 6, 8}, 1, DType::f32);
  EXPECT_NE(a(x).value().to_vector<float>(), a(x).value().to_vector<float>());
  a.eval();
  EXPECT_EQ(a(x).value().to_vector<float>(), a(x).value().to_vector<float>());
}

TEST_F(AttentionOptions, RefuseWhatCannotBe) {
  const Options plain{.dim = 12, .heads = 3};
  const auto refuses = [&](const std::function<void(Options&)>& change, const char* words) {
    Options o = plain;
    change(o);
    const std::string text = test::error_of([&] { MultiHeadAttention{o}; });
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  refuses([](Options& o) { o.head_dim = -1; }, "head_dim -1");
  refuses([](Options& o) { o.head_dim = std::int64_t{1} << 40; }, "head_dim");
  refuses([](Options& o) { o.key_dim = -2; }, "key_dim -2");
  refuses([](Options& o) { o.window = -1; }, "window");
  refuses([](Options& o) { o.softcap = std::nan(""); }, "softcap");
  refuses([](Options& o) { o.rotary = {.width = 3}; }, "rotary width");
  refuses([](Options& o) { o.rotary = {.width = 6}; }, "heads of 4");
  refuses([](Options& o) { o.rotary = {.base = 0}; }, "base 0");
  MultiHeadAttention a(plain);
  const Tensor x = test::noise({2, 5, 12}, 1, DType::f32);
  const std::string text = test::error_of([&] { a(x, {.key_mask = Tensor::zeros({2, 4}, DType::boolean)}); });
  EXPECT_NE(text.find("wanted key_mask (B, S) of bool or whole numbers with S 5"), std::string::npos) << text;
  EXPECT_THROW(a(x, {.mask = Tensor::zeros({3, 5})}), ShapeError);
  EXPECT_THROW(a(test::noise({5, 12}, 1, DType::f32)), ShapeError);
}

TEST_F(AttentionOptions, AlibiSlopesAreThoseOfThePaper) {
  std::vector<double> eight;
  for (int i = 1; i <= 8; ++i) eight.push_back(std::exp2(-i));
  EXPECT_EQ(alibi_slopes(8), eight);
  std::vector<double> twelve = eight;
  for (const double i : {0.5, 1.5, 2.5, 3.5}) twelve.push_back(std::exp2(-i));
  EXPECT_EQ(alibi_slopes(12), twelve);
  EXPECT_THROW(alibi_slopes(0), ArgumentError);
}

TEST_F(AttentionOptions, RotaryProductsDependOnTheDistanceAlone) {
  const Tensor q = test::noise({1, 1, 1, 8}, 1), k = test::noise({1, 1, 1, 8}, 2);
  for (const RotaryPairs pairs : {RotaryPairs::kHalves, RotaryPairs::kNeighbors}) {
    const auto product = [&](std::int64_t at_q, std::int64_t at_k) {
      const auto at = [&](const Tensor& x, std::int64_t p) {
        return rotary(x, rotary_table(1, 6, 100, p, DType::f64), pairs);
      };
      return sum(at(q, at_q) * at(k, at_k)).item();
    };
    EXPECT_NEAR(product(7, 3), product(104, 100), 1e-12);
    EXPECT_GT(std::abs(product(7, 3) - product(7, 4)), 1e-3);
    EXPECT_NEAR(product(5, 5), sum(Variable(q) * Variable(k)).item(), 1e-12);
  }
}

TEST_F(AttentionOptions, RotaryIsLinearWithTheGradientOfTheOppositeRotationInEveryDtype) {
  for (const RotaryPairs pairs : {RotaryPairs::kHalves, RotaryPairs::kNeighbors})
    test::check_gradients(
        [&](const std::vector<Variable>& in) {
          return std::vector{rotary(in[0], rotary_table(3, 4, 50, 1, DType::f64), pairs)};
        },
        {test::noise({2, 3, 2, 5}, 1)});
  const Tensor x = test::noise({2, 3, 2, 4}, 1), table = rotary_table(3, 4);
  const Tensor wanted = rotary(x, rotary_table(3, 4, 10000, 0, DType::f64)).value();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const Variable y = rotary(x.to(dtype), table);
    EXPECT_EQ(y.dtype(), dtype);
    // One rounding of the operands, at most 1, and one of the result, at most sqrt(2).
    expect_near(y.value().to(DType::f64), wanted, dtype == DType::f32 ? 1e-6 : dtype == DType::f16 ? 2e-3 : 1.6e-2);
  }
  EXPECT_THROW(rotary(x, rotary_table(2, 4)), ShapeError);
  EXPECT_THROW(rotary(x, rotary_table(3, 6)), ShapeError);
  EXPECT_THROW(rotary_table(3, 5), ArgumentError);
  EXPECT_THROW(rotary_table(-1, 4), ArgumentError);
  EXPECT_THROW(rotary_table(1, 4, -1), ArgumentError);
}

}  // namespace
}  // namespace binade::nn
