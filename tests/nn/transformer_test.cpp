#include "binade/nn/transformer.h"

#include <gtest/gtest.h>

#include <limits>

#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/runtime.h"
#include "tests/core/op_check.h"

/// Layers and stacks of transformers. tests/golden compares them with PyTorch's, forward and backward.
namespace binade::nn {
namespace {

class Transformers : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 5}};
  const TransformerLayerOptions causal_{
      .dim = 8, .heads = 2, .hidden = 12, .norm_first = true, .attention = {.causal = true}};
  const Tensor x_ = test::noise({2, 5, 8}, 1, DType::f32), memory_ = test::noise({2, 4, 8}, 2, DType::f32);

  static void expect_near(const Variable& got, const Variable& want, double tolerance) {
    ASSERT_EQ(got.shape(), want.shape());
    for (std::int64_t i = 0; i < want.value().numel(); ++i)
      ASSERT_NEAR(got.value().at(i), want.value().at(i), tolerance) << i;
  }
};

TEST_F(Transformers, HaveTheDefaultsOfPyTorch) {
  TransformerEncoderLayer layer({.dim = 8, .heads = 2});
  EXPECT_EQ(layer.up.weight.shape(), (Shape{2048, 8}));
  EXPECT_EQ(layer.up.options().activation, Activation::kRelu);
  EXPECT_EQ(layer.attention.options().dropout, 0.1);
  EXPECT_FALSE(layer.attention.options().causal);
  TransformerEncoder stack({.layers = 2, .layer = {.dim = 8, .heads = 2, .hidden = 4}});
  EXPECT_FALSE(stack.norm.has_value());
  EXPECT_EQ(named_parameters(stack).front().first, "layers.0.attention.query.weight");
  EXPECT_EQ(named_parameters(stack).back().first, "layers.1.norm2.bias");
}

TEST_F(Transformers, DropInTrainingOnlyAndKeepTheirState) {
  TransformerDecoder stack({.layers = 2, .layer = causal_, .norm = true}),
      other({.layers = 2, .layer = causal_, .norm = true});
  load_state_dict(other, state_dict(stack));
  EXPECT_NE(stack(x_, memory_).value().to_vector<float>(), stack(x_, memory_).value().to_vector<float>());
  stack.eval();
  other.eval();
  EXPECT_EQ(stack(x_, memory_).value().to_vector<float>(), other(x_, memory_).value().to_vector<float>());
  EXPECT_EQ(stack.kind(), "TransformerDecoder");
}

TEST_F(Transformers, GenerateTokenByTokenWhatTheyComputeAtOnce) {
  TransformerEncoder encoder({.layers = 2, .layer = causal_, .norm = true});
  TransformerDecoder decoder({.layers = 2, .layer = causal_});
  encoder.eval();
  decoder.eval();
  const NoGradGuard no_grad;
  const Variable whole = encoder(x_), decoded = decoder(x_, memory_);
  std::vector<AttentionCache> caches;
  std::vector<TransformerDecoderCache> decoder_caches;
  for (std::int64_t t = 0; t < 5; ++t) {
    const Variable token = slice(x_, 1, t, t + 1);
    expect_near(encoder(token, caches), slice(whole, 1, t, t + 1), 2e-6);
    expect_near(decoder(token, memory_, decoder_caches), slice(decoded, 1, t, t + 1), 2e-6);
  }
  EXPECT_EQ(caches.size(), 2u);
  caches.pop_back();
  EXPECT_THROW(encoder(x_, caches), ArgumentError);
}

TEST_F(Transformers, PassMasksToTheirAttentions) {
  TransformerLayerOptions o = causal_;
  o.attention.causal = false;
  TransformerEncoder encoder({.layers = 1, .layer = o}), causal({.layers = 1, .layer = causal_});
  TransformerDecoderLayer decoder(o);
  load_state_dict(causal, state_dict(encoder));
  encoder.eval();
  causal.eval();
  decoder.eval();
  Tensor mask = Tensor::zeros({5, 5});
  for (std::int64_t t = 0; t < 5; ++t)
    for (std::int64_t s = t + 1; s < 5; ++s)
      mask.mutable_data<float>()[t * 5 + s] = -std::numeric_limits<float>::infinity();
  expect_near(encoder(x_, {.mask = mask}), causal(x_), 1e-6);
  // The mask hides the second half of the memory, so its values have no effect.
  Tensor visible = Tensor::from({{1.f, 1.f, 0.f, 0.f}, {1.f, 1.f, 0.f, 0.f}}).to(DType::boolean);
  const Variable cut = slice(memory_, 1, 0, 2);
  expect_near(decoder(x_, memory_, {.memory = {.key_mask = visible}}), decoder(x_, cut), 1e-6);
}

TEST_F(Transformers, TakeAMemoryOfAnotherWidthAndTrainAllParameters) {
  TransformerLayerOptions o = causal_;
  o.memory_dim = 6;
  o.dropout = 0;
  TransformerDecoder decoder({.layers = 2, .layer = o, .norm = true});
  const Variable memory(test::noise({2, 4, 6}, 2, DType::f32), true);
  const Variable y = decoder(x_, memory);
  backward(y, test::noise(y.shape(), 3, DType::f32));
  EXPECT_TRUE(memory.grad().defined());
  for (const auto& [name, parameter] : named_parameters(decoder)) EXPECT_TRUE(parameter->grad().defined()) << name;
  EXPECT_THROW(decoder(x_, memory_), ShapeError);
}

TEST_F(Transformers, RefuseInvalidNumbers) {
  EXPECT_THROW(TransformerEncoder({.layers = 0, .layer = causal_}), ArgumentError);
  EXPECT_THROW(TransformerEncoderLayer({.dim = 9, .heads = 2}), ArgumentError);
  EXPECT_THROW(TransformerEncoderLayer({.dim = 8, .heads = 2, .hidden = 0}), ArgumentError);
  EXPECT_THROW(TransformerEncoderLayer({.dim = 8, .heads = 2, .dropout = 1}), ArgumentError);
  EXPECT_THROW(TransformerDecoder({.layers = 1, .layer = causal_})(x_), ArgumentError) << "it needs a memory";
}

}  // namespace
}  // namespace binade::nn
