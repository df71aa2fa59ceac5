#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "binade/core/host_device.h"
#include "binade/core/kernels/elementwise.h"
#include "binade/core/random.h"

namespace binade {

enum class Distribution { kUniform, kNormal, kBelow, kBernoulli };

/// Random numbers. Element i depends on the stream and i alone; every device computes it by the same formula, in
/// double, with fused multiply-adds only where the formula says so, and rounds it once.
///   kUniform     a + (b - a) u, u in [0, 1) a multiple of 2^-24, from word i
///   kNormal      a + b z, z standard normal, from words 2i and 2i + 1
///   kBelow       a + a whole number below b - a, from words 2i and 2i + 1
///   kBernoulli   1 with probability p[i] (a if p has no data), else 0, from word i
struct RandomArgs {
  Distribution distribution = Distribution::kUniform;
  RandomStream stream{};
  double a = 0, b = 1;
  std::int64_t low = 0;     ///< kBelow: a as a whole number
  std::uint64_t range = 0;  ///< kBelow: b - a
  In p{};
  Out out{};
  std::int64_t count = 0;
};

/// Formulas of random numbers. All multiply-adds are written as fused(), so that a compiler finds no others to contract
/// and all devices give the same bits.
namespace random_numbers {

/// a b + c with one rounding.
BINADE_HD double fused(double a, double b, double c) { return std::fma(a, b, c); }

/// Returns log(x) for 0 < x <= 1, with a relative error of 1e-15: 2 atanh((m - 1) / (m + 1)) + e ln 2, for x = m 2^e.
BINADE_HD double log_of(double x) {
  const std::int64_t bits = std::bit_cast<std::int64_t>(x);
  const std::int64_t exponent = (bits - 0x3fe6a09e667f3bcd) >> 52;  // m is in [sqrt(1/2), sqrt(2))
  const double m = std::bit_cast<double>(bits - (exponent << 52));
  const double t = (m - 1) / (m + 1);
  const double s = t * t;
  double p = 1.0 / 23;
  for (int k = 21; k >= 1; k -= 2) p = fused(p, s, 1.0 / k);
  return fused(static_cast<double>(exponent), 0.69314718055994530942, 2 * t * p);
}

/// Returns cos(2 pi v) for 0 <= v < 1: the Taylor series of cosine or sine within an eighth of a turn.
BINADE_HD double cosine_of_turns(double v) {
  const double quarter = static_cast<double>(static_cast<int>(fused(v, 4, 0.5)));  // nearest quarter turn
  const double x = fused(quarter, -0.25, v) * 6.28318530717958647693;
  const double s = x * x;
  const bool odd = (static_cast<int>(quarter) & 1) != 0;
  double cosine = 1, sine = 1;
  for (int k = 18; k >= 2; k -= 2) {
    cosine = fused(cosine * s, -1.0 / ((k - 1) * k), 1);
    sine = fused(sine * s, -1.0 / (k * (k + 1)), 1);
  }
  const int turn = static_cast<int>(quarter) & 3;
  const double y = odd ? sine * x : cosine;
  return turn == 1 || turn == 2 ? -y : y;
}

BINADE_HD double normal(std::uint32_t first, std::uint32_t second) {
  const double u = (static_cast<double>(first) + 0.5) * 0x1p-32;  // never 0
  return std::sqrt(-2 * log_of(u)) * cosine_of_turns(static_cast<double>(second) * 0x1p-32);
}

/// Returns element i of the numbers that `a` asks for. `p`: the probability of kBernoulli.
BINADE_HD double element(const RandomArgs& a, const RandomStream& stream, std::int64_t at, double p) {
  const auto i = static_cast<std::uint64_t>(at);
  switch (a.distribution) {
    case Distribution::kUniform: return fused(a.b - a.a, static_cast<double>(stream.word(i) >> 8) * 0x1p-24, a.a);
    case Distribution::kNormal: return fused(a.b, normal(stream.word(2 * i), stream.word(2 * i + 1)), a.a);
    default: return static_cast<double>(stream.word(i) >> 8) * 0x1p-24 < p ? 1 : 0;
  }
}
/// Returns element i of kBelow: the upper half of the 128-bit product of a 64-bit word and the range.
BINADE_HD std::int64_t element_below(const RandomArgs& a, const RandomStream& stream, std::int64_t at) {
  const auto i = static_cast<std::uint64_t>(at);
  const std::uint64_t high = stream.word(2 * i), low = stream.word(2 * i + 1);
  const std::uint64_t range_high = a.range >> 32, range_low = a.range & 0xffffffffu;
  const std::uint64_t middle = high * range_low + (low * range_low >> 32);
  const std::uint64_t middle2 = low * range_high + (middle & 0xffffffffu);
  const std::uint64_t upper = high * range_high + (middle >> 32) + (middle2 >> 32);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a.low) + upper);
}

}  // namespace random_numbers
}  // namespace binade
