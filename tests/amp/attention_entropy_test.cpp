#include "binade/amp/watch/attention_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/amp/watch/telemetry.h"
#include "binade/core/runtime.h"
#include "binade/core/step_context.h"
#include "binade/nn/attention.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(AttentionEntropy, IsOneForEqualLogitsAndZeroForASingleKey) {
  std::vector<double> logits(64, 3.0);
  EXPECT_NEAR(*relative_entropy(logits), 1, 1e-12);
  logits[17] = 1000;
  EXPECT_NEAR(*relative_entropy(logits), 0, 1e-12);
}

TEST(AttentionEntropy, EqualsTheDefinition) {
  const std::vector<double> logits = {0.1, -2, 3, 1.5, 0, -0.7, 2.2, 0.9, -4};
  double sum = 0, entropy = 0;
  for (const double l : logits) sum += std::exp(l);
  for (const double l : logits) entropy -= std::exp(l) / sum * std::log(std::exp(l) / sum);
  EXPECT_NEAR(*relative_entropy(logits), entropy / std::log(9.0), 1e-12);
}

TEST(AttentionEntropy, IgnoresMaskedKeysAndIsUndefinedForFewKeys) {
  std::vector<double> logits(16, 0.0);
  for (std::size_t i = 8; i < 16; ++i) logits[i] = i % 2 == 0 ? -kInfinity : -65504;
  EXPECT_NEAR(*relative_entropy(logits), 1, 1e-12);
  logits[0] = -kInfinity;
  EXPECT_FALSE(relative_entropy(logits));
  EXPECT_FALSE(relative_entropy({}));
  EXPECT_FALSE(relative_entropy(std::vector<double>(16, -kInfinity)));
  EXPECT_FALSE(relative_entropy(std::vector<double>(16, kInfinity)));
  EXPECT_FALSE(relative_entropy(std::vector<double>(16, std::nan(""))));
}

struct Model : nn::Module {
  nn::MultiHeadAttention attention;
  explicit Model(const nn::MultiHeadAttentionOptions& options) : attention(options) { nn::assign_paths(*this); }
  void visit(nn::Visitor& v) override { v("attention", attention); }
  Variable forward(const Variable& x) override { return attention(x); }
};

/// Returns the entropy that telemetry measures for one attention on 20 tokens, with query weights of size `sharpness`.
std::optional<double> entropy_of(const nn::MultiHeadAttentionOptions& options, DType dtype, float sharpness) {
  const Runtime runtime({.seed = 4, .threads = 1});
  Model model(options);
  model.attention.query.weight.mutable_value().copy_from(toy::random({32, 32}, 9, sharpness));
  Telemetry telemetry;
  telemetry.begin({.limits = true});
  const ObserverScope watched(telemetry);
  const PolicyScope policy(PrecisionPolicy{}.with("*", dtype));
  step_context().next = {};
  (void)model(Variable(toy::random({2, 20, 32}, 8)));
  std::optional<double> least;
  for (const Telemetry::OpRecord& record : telemetry.records(Direction::kForward))
    if (record.entropy) least = std::min(*record.entropy, least.value_or(1));
  return least;
}

TEST(AttentionEntropy, FusedAndComposedAttentionAgree) {
  for (const bool causal : {false, true})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const float sharpness : {0.1f, 1.0f, 10.0f}) {
        const auto fused = entropy_of({.dim = 32, .heads = 4, .causal = causal}, dtype, sharpness);
        const auto composed = entropy_of({.dim = 32, .heads = 4, .causal = causal, .composed = true}, dtype, sharpness);
        ASSERT_TRUE(fused && composed);
        // The composed attention stores its logits in the low dtype, so the results differ by this rounding.
        EXPECT_NEAR(*fused, *composed, dtype == DType::f32 ? 1e-6 : 0.02) << causal << " " << sharpness;
      }
}

TEST(AttentionEntropy, IsLowerForSharperAttention) {
  double before = 1.01;
  for (const float sharpness : {0.01f, 1.0f, 10.0f, 1000.0f}) {
    const auto entropy = entropy_of({.dim = 32, .heads = 4}, DType::f32, sharpness);
    ASSERT_TRUE(entropy);
    EXPECT_LT(*entropy, before);
    before = *entropy;
  }
  EXPECT_LT(before, 0.02);
}

}  // namespace
}  // namespace binade::amp
