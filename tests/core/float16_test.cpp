#include "core/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace binade {
namespace {

// The reference for f16 is the compiler's _Float16, for bf16 a search for the nearest neighbor in double.

bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

TEST(Float16, EveryValueWidensAsTheCompilerDoes) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float16 h{static_cast<std::uint16_t>(bits)};
    const float expected = static_cast<float>(std::bit_cast<_Float16>(h));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(h.to_float())) << bits;
    } else {
      EXPECT_TRUE(same(h.to_float(), expected)) << bits;
    }
  }
}

TEST(Float16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float16 h{static_cast<std::uint16_t>(bits)};
    const bfloat16 b{static_cast<std::uint16_t>(bits)};
    EXPECT_TRUE(std::isnan(h.to_float()) || float16::from_float(h.to_float()).bits == h.bits) << bits;
    EXPECT_TRUE(std::isnan(b.to_float()) || bfloat16::from_float(b.to_float()).bits == b.bits) << bits;
  }
}

TEST(Float16, RoundsEveryMidpointAndItsNeighborsAsTheCompilerDoes) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double low = float16{static_cast<std::uint16_t>(bits)}.to_float();
    const double high = bits == 0x7bff ? 65536.0 : float16{static_cast<std::uint16_t>(bits + 1)}.to_float();
    const auto middle = static_cast<float>((low + high) / 2);
    for (const float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
      const auto expected = std::bit_cast<std::uint16_t>(static_cast<_Float16>(x));
      EXPECT_EQ(float16::from_float(x).bits, expected) << x;
      EXPECT_EQ(float16::from_float(-x).bits, expected | 0x8000) << -x;
    }
  }
}

TEST(Float16, RandomFloatsRoundAsTheCompilerDoes) {
  std::mt19937 random(1);
  for (int i = 0; i < 2'000'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(x)) continue;
    ASSERT_EQ(float16::from_float(x).bits, std::bit_cast<std::uint16_t>(static_cast<_Float16>(x))) << x << " seed 1";
  }
}

TEST(BFloat16, RandomFloatsRoundToTheNearestEven) {
  std::mt19937 random(2);
  for (int i = 0; i < 2'000'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x7fffffffu);
    if (!std::isfinite(x) || x > 3.38e38f) continue;
    const std::uint32_t down = std::bit_cast<std::uint32_t>(x) & 0xffff0000u;
    const double low = std::bit_cast<float>(down);
    const double high = std::bit_cast<float>(down + 0x10000u);
    const bool up = x - low > high - x || (x - low == high - x && (down >> 16 & 1u) != 0);
    ASSERT_EQ(bfloat16::from_float(x).bits, (down >> 16) + (up ? 1 : 0)) << x << " seed 2";
  }
}

TEST(Float16, NonFiniteStaysNonFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float sign : {1.0f, -1.0f}) {
    EXPECT_EQ(float16::from_float(sign * kInf).to_float(), sign * kInf);
    EXPECT_EQ(bfloat16::from_float(sign * kInf).to_float(), sign * kInf);
    EXPECT_EQ(float16::from_float(sign * 65520.0f).to_float(), sign * kInf);
    EXPECT_EQ(float16::from_float(sign * 65519.996f).to_float(), sign * 65504.0f);
  }
  // Every NaN payload, also those whose kept bits are all zero.
  for (std::uint32_t payload = 1; payload < 0x800000; payload += 4093) {
    const float nan = std::bit_cast<float>(0x7f800000u | payload);
    EXPECT_TRUE(std::isnan(float16::from_float(nan).to_float()));
    EXPECT_TRUE(std::isnan(bfloat16::from_float(nan).to_float()));
  }
}

}  // namespace
}  // namespace binade
