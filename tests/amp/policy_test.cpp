#include "binade/amp/policy.h"

#include <gtest/gtest.h>

#include "binade/core/error.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

TEST(Policy, PresetsHaveTheDtypesOfTheirNames) {
  EXPECT_EQ(Policy::fp32().low, DType::f32);
  EXPECT_TRUE(Policy::by_name("tf32").PrecisionPolicy::tf32);
  EXPECT_EQ(Policy::fp16().low, DType::f16);
  EXPECT_TRUE(Policy::fp16().dynamic_loss_scale && Policy::fp16().master_weights);
  EXPECT_EQ(Policy::bf16().low, DType::bf16);
  EXPECT_FALSE(Policy::bf16().dynamic_loss_scale);
  EXPECT_FALSE(Policy::pure_bf16().master_weights);
  EXPECT_TRUE(Policy::pure_fp16().stochastic_rounding && Policy::pure_fp16().dynamic_loss_scale);
  EXPECT_EQ(Policy::by_name("pure-bf16"), Policy::pure_bf16());
  EXPECT_THROW(Policy::by_name("half"), ArgumentError);
}

TEST(Policy, TheLastMatchingOverrideWins) {
  const Policy policy =
      Policy::fp16().with("decoder.*", DType::f32).with<toy::SquaredError>(DType::f16).with("decoder.1", DType::bf16);
  EXPECT_EQ(policy.override_for("decoder.0", "linear"), DType::f32);
  EXPECT_EQ(policy.override_for("decoder.1", "linear"), DType::bf16);
  EXPECT_EQ(policy.override_for("head", "squared_error"), DType::f16);
  EXPECT_EQ(policy.override_for("decoder", "linear"), std::nullopt);
  EXPECT_EQ(Policy(PrecisionPolicy::from_string(policy.to_string())), policy);
}

TEST(Policy, AnUnmatchedOverrideIsAnErrorThatNamesTheNearest) {
  const std::vector<std::string> names = {"encoder.0.conv1", "head", "conv2d"};
  EXPECT_NO_THROW(check_overrides(Policy::fp16().with("enc*", DType::f32).with("conv2d", DType::f32), names));
  try {
    check_overrides(Policy::fp16().with("haed", DType::f32), names);
    FAIL();
  } catch (const ArgumentError& e) {
    EXPECT_NE(std::string(e.what()).find("'head'"), std::string::npos) << e.what();
  }
}

TEST(Policy, ThePatternThatWasMeantIsNamed) {
  const std::vector<std::string> names = {"tokens", "norm", "blocks.0.moe.router", "blocks.0.moe.router/linear"};
  const auto advice = [&](const char* glob) {
    try {
      check_overrides(Policy::bf16().with(glob, DType::f32), names);
    } catch (const ArgumentError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(advice("router").find("did you mean '*.router', which matches 'blocks.0.moe.router'?"), std::string::npos)
      << advice("router");
  EXPECT_NE(advice("*.routr").find("the nearest is 'blocks.0.moe.router'"), std::string::npos) << advice("*.routr");
}

TEST(Policy, TheTrainerRefusesAnUnmatchedOverride) {
  toy::Training bad({.precision = Policy::fp16().with("linaer", DType::f32)});
  EXPECT_THROW(bad.step(0), ArgumentError);
  EXPECT_THROW(bad.step(0), ArgumentError) << "and again";
  EXPECT_EQ(bad.trainer.steps(), 0);
}

TEST(Policy, APolicyScopeEndsWithItsLifetime) {
  const Runtime runtime;
  toy::Net net;
  {
    const PolicyScope scope(Policy::bf16());
    EXPECT_EQ(net(toy::batch(0).x).dtype(), DType::bf16);
  }
  EXPECT_EQ(net(toy::batch(0).x).dtype(), DType::f32);
}

}  // namespace
}  // namespace binade::amp
