#include "binade/core/random.h"

#include <cmath>
#include <numbers>

namespace binade {

double RandomStream::normal(std::uint64_t i) const {
  const std::uint32_t a = word(2 * i);
  const std::uint32_t b = word(2 * i + 1);
  const double radius = std::sqrt(-2.0 *
                                  std::log((a + 0.5) * 0x1p-32));  // + 0.5, so that the argument of log is never 0
  return radius * std::cos(2.0 * std::numbers::pi * (b * 0x1p-32));
}

std::uint64_t RandomStream::below(std::uint64_t i, std::uint64_t n) const { return (std::uint64_t{word(i)} * n) >> 32; }

}  // namespace binade
