#include "binade/optim/clip.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/core/error.h"
#include "binade/optim/ema.h"
#include "tests/optim/toy.h"

namespace binade::optim {
namespace {

class Clip : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t p = 0; p < parameters_.size(); ++p) toy::set_gradient(parameters_[p].variable, gradient(p));
  }
  std::vector<float> gradient(std::size_t p) const {
    return toy::gradient(parameters_[p].variable.value().numel(), static_cast<std::uint32_t>(p), 1);
  }
  std::vector<float> now(std::size_t p) const { return parameters_[p].variable.grad().to_vector<float>(); }

  Runtime runtime_;
  std::vector<NamedParameter> parameters_ = toy::parameters();
  FlatParameters flat_{parameters_};
};

TEST_F(Clip, ByNormScalesTheWholeGradient) {
  const double norm = clip_by_norm(flat_, 0.5);
  EXPECT_GT(norm, 0.5);
  EXPECT_NEAR(scan_gradients(flat_).norm(), 0.5, 1e-5);
  EXPECT_FLOAT_EQ(now(2)[17], gradient(2)[17] * static_cast<float>(0.5 / (norm + 1e-6)));
  EXPECT_NEAR(clip_by_norm(flat_, 100), 0.5, 1e-5) << "returns the norm, and a small gradient stays";
  EXPECT_NEAR(scan_gradients(flat_).norm(), 0.5, 1e-5);
}

TEST_F(Clip, ByNormRefusesNonFiniteNorms) {
  std::vector<float> g = gradient(1);
  g[3] = INFINITY;
  toy::set_gradient(parameters_[1].variable, g);
  try {
    clip_by_norm(flat_, 1);
    FAIL() << "clipped an infinite gradient";
  } catch (const NumericError& e) {
    EXPECT_NE(std::string(e.what()).find("p1.weight"), std::string::npos) << e.what();
  }
  EXPECT_EQ(now(2), gradient(2));
}

TEST_F(Clip, ByValueClampsAndKeepsNan) {
  std::vector<float> g = gradient(1);
  g[0] = std::nanf("");
  g[1] = -INFINITY;
  toy::set_gradient(parameters_[1].variable, g);
  clip_by_value(flat_, 0.1);
  EXPECT_TRUE(std::isnan(now(1)[0]));
  EXPECT_EQ(now(1)[1], -0.1f);
  const std::vector<float> before = gradient(2), after = now(2);
  for (std::size_t i = 0; i < after.size(); ++i) ASSERT_EQ(after[i], std::min(0.1f, std::max(-0.1f, before[i])));
}

TEST_F(Clip, AdaptiveBoundsEachUnitByItsWeights) {
  constexpr double kScale = 1024;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    std::vector<float> g = gradient(p);
    for (float& x : g) x *= static_cast<float>(kScale);
    toy::set_gradient(parameters_[p].variable, g);
  }
  clip_adaptive(flat_, {.limit = 0.5}, 1 / kScale);
  const std::vector<float> w = parameters_[2].variable.value().to_vector<float>(), g = now(2), was = gradient(2);
  int clipped = 0;
  for (std::size_t row = 0; row < 130; ++row) {
    double w2 = 0, g2 = 0, was2 = 0;
    for (std::size_t i = 65 * row; i < 65 * (row + 1); ++i) {
      w2 += w[i] * w[i];
      g2 += g[i] / kScale * g[i] / kScale;
      was2 += was[i] * was[i];
    }
    const double limit = 0.5 * std::max(std::sqrt(w2), 1e-3);
    clipped += std::sqrt(was2) > limit;
    EXPECT_NEAR(std::sqrt(g2), std::min(std::sqrt(was2), limit), 1e-5 * limit) << row;
  }
  EXPECT_GT(clipped, 10);
}

TEST(Ema, FollowsItsFormulaFromTheFirstWeights) {
  const Runtime runtime;
  for (const EmaOptions options :
       {EmaOptions{.decay = 0.9}, EmaOptions{.decay = 0.9, .warmup = true}, EmaOptions{.decay = 0.9, .debias = true}}) {
    std::vector<NamedParameter> parameters = toy::parameters();
    FlatParameters flat(parameters);
    Ema ema(flat, options);
    std::vector<double> reference = toy::widened(parameters[2].variable.value().to_vector<float>());
    if (options.debias) std::fill(reference.begin(), reference.end(), 0.0);
    for (int t = 1; t <= 20; ++t) {
      const std::vector<float> w = toy::numbers(130 * 65, 50 + static_cast<std::uint32_t>(t));
      parameters[2].variable.state()->value.copy_from(Tensor::from(w, Shape{130, 65}));
      ema.update();
      const double decay = options.warmup ? std::min(0.9, (1.0 + t) / (10.0 + t)) : 0.9;
      for (std::size_t i = 0; i < reference.size(); ++i) reference[i] = decay * reference[i] + (1 - decay) * w[i];
      const double divisor = options.debias ? 1 - std::pow(0.9, t) : 1;
      // Each update rounds twice in f32 (2 x 2^-24), and the decay damps earlier errors: together below 20 x 2^-24 for
      // values of size 1.
      const std::vector<float> a = ema.average(2).to_vector<float>();
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], reference[i] / divisor, 2e-6) << t;
    }
  }
}

TEST(Ema, ScopeReplacesTheWeightsAndRestoresThem) {
  const Runtime runtime;
  std::vector<NamedParameter> parameters = toy::parameters();
  FlatParameters flat(parameters);
  Ema ema(flat, {.decay = 0.5});
  const std::vector<float> start = parameters[0].variable.value().to_vector<float>();
  parameters[0].variable.state()->value.fill(2);
  parameters[0].variable.state()->low_copy(DType::bf16);
  ema.update();
  {
    const Ema::Scope scope(ema);
    EXPECT_FLOAT_EQ(static_cast<float>(parameters[0].variable.value().at(0)), 1 + start[0] / 2);
    EXPECT_NEAR(parameters[0].variable.state()->low_copy(DType::bf16).at(0), 1 + start[0] / 2, 0.01);
  }
  EXPECT_EQ(parameters[0].variable.value().at(0), 2);
  EXPECT_EQ(parameters[0].variable.state()->low_copy(DType::bf16).at(0), 2);
}

}  // namespace
}  // namespace binade::optim
