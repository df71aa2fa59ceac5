#include "binade/core/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "binade/core/one_rounding.h"

namespace binade {
namespace {

// The reference for f16 is the compiler's 16-bit type, for bf16 a search for the nearest neighbor in double.

#if defined(__aarch64__)
using CompilersFloat16 = __fp16;  // GCC before 13 has no _Float16 in C++ there
#else
using CompilersFloat16 = _Float16;
#endif

bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

TEST(Float16, EveryValueWidensAsInTheCompiler) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float16 h{static_cast<std::uint16_t>(bits)};
    const float expected = static_cast<float>(std::bit_cast<CompilersFloat16>(h));
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

TEST(Float16, RoundsEveryMidpointAndItsNeighborsAsInTheCompiler) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double low = float16{static_cast<std::uint16_t>(bits)}.to_float();
    const double high = bits == 0x7bff ? 65536.0 : float16{static_cast<std::uint16_t>(bits + 1)}.to_float();
    const auto middle = static_cast<float>((low + high) / 2);
    for (const float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
      const auto expected = std::bit_cast<std::uint16_t>(static_cast<CompilersFloat16>(x));
      EXPECT_EQ(float16::from_float(x).bits, expected) << x;
      EXPECT_EQ(float16::from_float(-x).bits, expected | 0x8000) << -x;
    }
  }
}

TEST(Float16, RandomFloatsRoundAsInTheCompiler) {
  std::mt19937 random(1);
  for (int i = 0; i < 2'000'000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isnan(x)) continue;
    ASSERT_EQ(float16::from_float(x).bits, std::bit_cast<std::uint16_t>(static_cast<CompilersFloat16>(x)))
        << x << " seed 1";
  }
}

/// The compiler's 16-bit type rounds a double once; for bfloat16 the reference is a search.
TEST(Float16, RandomDoublesNearTiesRoundOnce) {
  std::mt19937_64 random(3);
  int differ = 0;
  for (int k = 0; k < 200000; ++k) {
    const auto half = float16{static_cast<std::uint16_t>(random() % 0xfc00)};
    if ((half.bits & 0x7fff) >= 0x7bff) continue;
    const double low = half.to_float(), high = float16{static_cast<std::uint16_t>(half.bits + 1)}.to_float();
    const double near = (low + high) / 2 + std::ldexp(high - low, -static_cast<int>(14 + random() % 28)) *
                                               (static_cast<double>(random() % 3) - 1);
    EXPECT_EQ(store_once<float16>(near).bits, std::bit_cast<std::uint16_t>(static_cast<CompilersFloat16>(near)))
        << near;
    differ += store_once<float16>(near).bits != float16::from_float(static_cast<float>(near)).bits ? 1 : 0;
    const auto brain = bfloat16{static_cast<std::uint16_t>(random() % 0x7f7f)};
    const double from = brain.to_float(), to = bfloat16{static_cast<std::uint16_t>(brain.bits + 1)}.to_float();
    for (const double side : {-1.0, 1.0}) {
      const double x = (from + to) / 2 + std::ldexp(to - from, -40) * side;
      EXPECT_EQ(store_once<bfloat16>(x).bits, brain.bits + (side > 0 ? 1 : 0)) << x;
      EXPECT_EQ(store_once<bfloat16>(-x).bits, (brain.bits + (side > 0 ? 1 : 0)) | 0x8000) << x;
    }
  }
  EXPECT_GT(differ, 1000) << "a test of what a second rounding spoils";
  for (const double x : {1e300, -1e300, 65520.0, 0.0, -0.0, 1e-300, -1e-300, std::numeric_limits<double>::infinity()})
    EXPECT_EQ(store_once<float16>(x).bits, std::bit_cast<std::uint16_t>(static_cast<CompilersFloat16>(x))) << x;
  EXPECT_TRUE(std::isnan(store_once<float16>(std::nan("")).to_float()));
  EXPECT_EQ(store_once<bfloat16>(1e300).bits, 0x7f80);
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
  // NaN payloads, including those whose upper bits, which f16 keeps, are all 0.
  for (std::uint32_t payload = 1; payload < 0x800000; payload += 4093) {
    const float nan = std::bit_cast<float>(0x7f800000u | payload);
    EXPECT_TRUE(std::isnan(float16::from_float(nan).to_float()));
    EXPECT_TRUE(std::isnan(bfloat16::from_float(nan).to_float()));
  }
}

}  // namespace
}  // namespace binade
