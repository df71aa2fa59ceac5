#include "binade/core/stochastic_rounding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/core/random.h"

namespace binade {
namespace {

template <class T>
T round_stochastic(float x, std::uint32_t word) {
  if constexpr (std::is_same_v<T, float16>)
    return round_stochastic_f16(x, word);
  else
    return round_stochastic_bf16(x, word);
}

template <class T>
class StochasticRounding : public ::testing::Test {};
using HalfTypes = ::testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(StochasticRounding, HalfTypes);

TYPED_TEST(StochasticRounding, EveryValueOfTheTargetStaysWhatItIs) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const TypeParam value{static_cast<std::uint16_t>(bits)};
    const float x = value.to_float();
    for (const std::uint32_t word : {0u, 0x80000000u, 0xffffffffu}) {
      const TypeParam rounded = round_stochastic<TypeParam>(x, word);
      if (std::isnan(x))
        ASSERT_TRUE(std::isnan(rounded.to_float()));
      else
        ASSERT_EQ(rounded.bits, value.bits) << bits;
    }
  }
}

TYPED_TEST(StochasticRounding, OtherValuesBecomeANeighborAndKeepTheirMean) {
  const RandomStream stream{17, RngPurpose::kRounding, 1, 0, 0};
  constexpr int kDraws = 20000;
  std::uint64_t next = 0;
  // Normal, subnormal (of f16), just below a power of two, large.
  for (const float x : {1.0001f, -3.14159f, 0.99999f, 3e-6f, -1.7e-7f, 2e-8f, 60001.3f}) {
    const float nearest = TypeParam::from_float(x).to_float();
    double mean = 0;
    float low = INFINITY, high = -INFINITY;
    for (int i = 0; i < kDraws; ++i) {
      const float r = round_stochastic<TypeParam>(x, stream.word(next++)).to_float();
      mean += static_cast<double>(r) / kDraws;
      low = std::min(low, r);
      high = std::max(high, r);
    }
    EXPECT_LE(low, x);
    EXPECT_GE(high, x);
    EXPECT_TRUE(low == nearest || high == nearest) << x;
    // The standard deviation of one draw is at most half the spacing. Tolerance: six standard deviations of the mean.
    EXPECT_NEAR(mean, x, 6 * 0.5 * (high - low) / std::sqrt(kDraws) + 1e-12) << x;
  }
}

TYPED_TEST(StochasticRounding, NeverPassesTheLargestValueIntoNan) {
  for (const std::uint32_t word : {0u, 0xffffffffu}) {
    for (const float x : {65519.0f, 70000.0f, 3.4e38f, INFINITY, -INFINITY}) {
      const float r = round_stochastic<TypeParam>(x, word).to_float();
      ASSERT_FALSE(std::isnan(r)) << x;
      ASSERT_EQ(std::signbit(r), std::signbit(x));
    }
    ASSERT_TRUE(std::isnan(round_stochastic<TypeParam>(std::nanf(""), word).to_float()));
  }
}

}  // namespace
}  // namespace binade
