#include "binade/core/precision.h"

#include <gtest/gtest.h>

#include "binade/core/step_context.h"

namespace binade {
namespace {

constexpr DType kF32[] = {DType::f32};
constexpr DType kMixed[] = {DType::f16, DType::f32};
constexpr DType kHalves[] = {DType::f16, DType::bf16};
constexpr DType kCheck[] = {DType::f64, DType::f16};

OpPrecision decide(PrecisionClass c, std::span<const DType> in, const PrecisionPolicy& p = {.low = DType::f16}) {
  return compute_dtype(c, in, p, "decoder.0.conv1", "conv2d");
}

TEST(PrecisionPolicy, EachClassHasItsComputeAndStoreDtype) {
  EXPECT_EQ(decide(PrecisionClass::kLow, kF32).read, DType::f16);
  EXPECT_EQ(decide(PrecisionClass::kLow, kF32).store, DType::f16);
  EXPECT_EQ(decide(PrecisionClass::kFull, kMixed).read, std::nullopt);
  EXPECT_EQ(decide(PrecisionClass::kFull, kMixed).store, DType::f32);
  EXPECT_EQ(decide(PrecisionClass::kWidest, kMixed).read, DType::f32);
  EXPECT_EQ(decide(PrecisionClass::kWidest, kHalves).read, DType::f32);
  EXPECT_EQ(decide(PrecisionClass::kAsIs, kMixed).read, std::nullopt);
  EXPECT_EQ(decide(PrecisionClass::kAsIs, kMixed).store, DType::f16);
}

TEST(PrecisionPolicy, F64InputsAreComputedInF64) {
  for (const auto c : {PrecisionClass::kLow, PrecisionClass::kFull, PrecisionClass::kWidest, PrecisionClass::kAsIs})
    EXPECT_EQ(decide(c, kCheck).store, DType::f64);
}

TEST(PrecisionPolicy, TheLastMatchingOverrideWins) {
  PrecisionPolicy policy{.low = DType::f16};
  policy = policy.with("decoder.*", DType::f32).with("decoder.0.*", DType::bf16);
  EXPECT_EQ(decide(PrecisionClass::kLow, kF32, policy).store, DType::bf16);
  EXPECT_EQ(decide(PrecisionClass::kLow, kF32, policy.with("conv2d", DType::f32)).store, DType::f32);
  EXPECT_EQ(policy.override_for("decoder", "relu"), std::nullopt);
  EXPECT_THROW(policy.with("x", DType::i64), ArgumentError);
}

TEST(PrecisionPolicy, Tf32AppliesToF32ProductsWithoutAnOverride) {
  const PrecisionPolicy policy{.tf32 = true};
  EXPECT_TRUE(decide(PrecisionClass::kLow, kF32, policy).tf32);
  EXPECT_FALSE(decide(PrecisionClass::kLow, kF32, {}).tf32);
  EXPECT_FALSE(decide(PrecisionClass::kLow, kF32, {.low = DType::f16, .tf32 = true}).tf32);
  EXPECT_FALSE(decide(PrecisionClass::kLow, kCheck, policy).tf32);
  for (const auto c : {PrecisionClass::kFull, PrecisionClass::kWidest, PrecisionClass::kAsIs})
    EXPECT_FALSE(decide(c, kF32, policy).tf32);
  EXPECT_FALSE(decide(PrecisionClass::kLow, kF32, policy.with("decoder.*", DType::f32)).tf32);
}

TEST(PrecisionPolicy, TextRoundTrip) {
  const PrecisionPolicy policy = PrecisionPolicy{.name = "fp16", .low = DType::f16, .dynamic_loss_scale = true}
                                     .with("a=b.*", DType::f32)
                                     .with("head", DType::bf16);
  EXPECT_EQ(PrecisionPolicy::from_string(policy.to_string()), policy);
  for (const char* bad : {"", "fp16", "fp16:f16", "fp16:f17:-m-d", "fp16:f16:-m-d;head", "fp16:f16:-m-"})
    EXPECT_THROW(PrecisionPolicy::from_string(bad), ArgumentError) << bad;
}

TEST(PrecisionPolicy, ScopesNest) {
  {
    const PolicyScope outer({.low = DType::f16});
    {
      const PolicyScope inner({.low = DType::bf16});
      EXPECT_EQ(current_policy().low, DType::bf16);
    }
    EXPECT_EQ(current_policy().low, DType::f16);
  }
  EXPECT_EQ(current_policy().low, DType::f32);
}

TEST(Glob, StarMatchesAnyCharactersIncludingDots) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("decoder.*", "decoder.0.conv1"));
  EXPECT_FALSE(glob_match("decoder.*", "decoder"));
  EXPECT_TRUE(glob_match("*.norm*", "blocks.11.norm2"));
  EXPECT_FALSE(glob_match("norm?", "norm1"));
  EXPECT_TRUE(glob_match("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(glob_match("a*b*c", "aXbYbZ"));
}

}  // namespace
}  // namespace binade
