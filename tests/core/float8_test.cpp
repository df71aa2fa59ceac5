#include "binade/core/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "binade/core/float16.h"

namespace binade {
namespace {

// The reference uses only the bias and the number of mantissa bits of a format. It computes in double, and rounds by
// searching all values for the nearest.

struct Format {
  Float8 format;
  int mantissa, bias;
  double largest;
  bool has_infinity;
};
constexpr Format kFormats[] = {{Float8::e4m3, 3, 7, 448, false}, {Float8::e5m2, 2, 15, 57344, true}};

double value_of(int code, const Format& f) {
  const int exponent = (code & 0x7f) >> f.mantissa, fraction = code & ((1 << f.mantissa) - 1);
  const double sign = code >= 0x80 ? -1 : 1;
  if (f.has_infinity && exponent == 31)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  if (!f.has_infinity && (code & 0x7f) == 0x7f) return std::nan("");
  const double part = static_cast<double>(fraction) / (1 << f.mantissa);
  return sign * (exponent == 0 ? std::ldexp(part, 1 - f.bias) : std::ldexp(1 + part, exponent - f.bias));
}

/// Returns the magnitude of each code, up to the largest finite one.
std::vector<double> magnitudes(const Format& f) {
  std::vector<double> values;
  for (int code = 0; code < 0x80 && value_of(code, f) <= f.largest; ++code) values.push_back(value_of(code, f));
  return values;
}

int nearest(double x, const Format& f, const std::vector<double>& values) {
  const int sign = std::signbit(x) ? 0x80 : 0;
  if (std::isnan(x) || (std::isinf(x) && !f.has_infinity)) return sign | (f.has_infinity ? 0x7e : 0x7f);
  if (std::isinf(x)) return sign | 0x7c;
  if (std::abs(x) >= f.largest) return sign | (static_cast<int>(values.size()) - 1);
  int best = 0;
  for (int code = 1; code < static_cast<int>(values.size()); ++code) {
    const double here = std::abs(values[static_cast<std::size_t>(code)] - std::abs(x));
    const double there = std::abs(values[static_cast<std::size_t>(best)] - std::abs(x));
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return sign | best;
}

TEST(Float8, EveryCodeHasTheRightValueAndSurvivesARoundTrip) {
  for (const Format& f : kFormats) {
    EXPECT_EQ(largest_of(f.format), f.largest);
    for (int code = 0; code < 256; ++code) {
      const double expected = value_of(code, f);
      const float got = from_float8(static_cast<std::uint8_t>(code), f.format);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got)) << code;
        EXPECT_TRUE(std::isnan(from_float8(to_float8(got, f.format), f.format))) << code;
        continue;
      }
      EXPECT_EQ(got, expected) << code;
      EXPECT_EQ(std::signbit(got), code >= 0x80) << code;
      EXPECT_EQ(to_float8(got, f.format), code);
    }
  }
}

TEST(Float8, Every16BitValueRoundsToTheNearestCodeTiesToEven) {
  for (const Format& f : kFormats) {
    const std::vector<double> values = magnitudes(f);
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float16 h{static_cast<std::uint16_t>(bits)};
      const bfloat16 b{static_cast<std::uint16_t>(bits)};
      for (const float x : {h.to_float(), b.to_float()}) {
        const int got = to_float8(x, f.format);
        ASSERT_EQ(got, nearest(x, f, values)) << x;
        const float through = through_float8(x, 0, f.format), decoded = from_float8(to_float8(x, f.format), f.format);
        ASSERT_TRUE(through == decoded || (std::isnan(through) && std::isnan(decoded))) << x;
        ASSERT_EQ(std::signbit(through), std::signbit(x)) << x;
      }
    }
  }
}

TEST(Float8, EveryMidpointAndItsNeighborsRoundToTheNearestCode) {
  for (const Format& f : kFormats) {
    const std::vector<double> values = magnitudes(f);
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const auto middle = static_cast<float>((values[i] + values[i + 1]) / 2);
      for (const float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
        EXPECT_EQ(to_float8(x, f.format), nearest(x, f, values)) << x;
        EXPECT_EQ(to_float8(-x, f.format), nearest(-x, f, values)) << -x;
      }
    }
  }
}

TEST(Float8, FiniteValuesSaturateAndOthersStayNonFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kMost = std::numeric_limits<float>::max();
  EXPECT_EQ(from_float8(to_float8(449, Float8::e4m3), Float8::e4m3), 448);
  EXPECT_EQ(from_float8(to_float8(-kMost, Float8::e4m3), Float8::e4m3), -448);
  EXPECT_EQ(from_float8(to_float8(kMost, Float8::e5m2), Float8::e5m2), 57344);
  EXPECT_TRUE(std::isnan(from_float8(to_float8(kInf, Float8::e4m3), Float8::e4m3)));
  EXPECT_TRUE(std::isnan(from_float8(to_float8(-kInf, Float8::e4m3), Float8::e4m3)));
  EXPECT_EQ(from_float8(to_float8(-kInf, Float8::e5m2), Float8::e5m2), -kInf);
}

TEST(Float8, AScaleMapsTheLargestValueIntoTheRange) {
  std::mt19937 random(3);
  for (const Format& f : kFormats) {
    EXPECT_EQ(scale_exponent(0, f.format), 0);
    EXPECT_EQ(scale_exponent(static_cast<float>(f.largest), f.format), 0);
    EXPECT_EQ(scale_exponent(std::nextafter(static_cast<float>(f.largest), 1e9f), f.format), -1);
    for (int i = 0; i < 100000; ++i) {
      const float amax = std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x7f800000u));
      const int k = scale_exponent(amax, f.format);
      ASSERT_GE(k, -126);
      ASSERT_LE(k, 110);
      ASSERT_LE(std::ldexp(amax, k), f.largest) << amax;
      ASSERT_TRUE(amax == 0 || k == 110 || std::ldexp(amax, k + 1) > f.largest) << amax;
    }
  }
}

TEST(Float8, AScaledCodeIsExactInBf16) {
  std::mt19937 random(4);
  for (const Format& f : kFormats) {
    const std::vector<double> values = magnitudes(f);
    for (int i = 0; i < 200000; ++i) {
      const float x = bfloat16{static_cast<std::uint16_t>(random())}.to_float();
      if (!std::isfinite(x)) continue;
      const int k = static_cast<int>(random() % 200) - 100;
      const float got = through_float8(x, k, f.format);
      const int code = nearest(std::ldexp(static_cast<double>(x), k), f, values);
      const double expected = std::ldexp(value_of(code, f), -k);
      ASSERT_EQ(got, expected) << x << " at 2^" << k;
      ASSERT_EQ(to_float8(x, k, f.format), code) << x << " at 2^" << k;
      ASSERT_EQ(bfloat16::from_float(got).to_float(), got) << x << " at 2^" << k;
    }
    for (const float x : {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity(), -3e38f})
      EXPECT_EQ(to_float8(x, 100, f.format), nearest(x, f, values)) << x;
    EXPECT_TRUE(std::isnan(through_float8(std::nanf(""), 5, f.format)));
    EXPECT_FALSE(std::isfinite(through_float8(-std::numeric_limits<float>::infinity(), -5, f.format)));
    EXPECT_EQ(through_float8(-3e38f, 100, f.format), std::ldexp(-largest_of(f.format), -100)) << "saturates";
  }
}

}  // namespace
}  // namespace binade
