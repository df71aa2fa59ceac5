#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/optim/flat_parameters.h"

namespace binade::optim {

/// What one deterministic pass over all gradients says. `words[i]` belongs to parameter i: the bits of its largest |g|
/// as float, so that exponent, infinity (== 0x7f800000) and NaN (above) can be read off; 0 where there is no gradient.
struct GradientScan {
  std::vector<std::uint32_t> words{};
  std::uint32_t largest = 0;
  double sum_squares = 0;  ///< of all gradients as they lie there (loss scale included); only meaningful when finite()
  std::size_t gradients = 0;  ///< parameters that have one

  bool finite() const { return largest < 0x7f800000u; }
  bool has_nan() const { return largest > 0x7f800000u; }
  double norm() const;  ///< sqrt(sum_squares); inf or NaN when a gradient is
};

/// Blocks of 4096 elements are summed in fp32 under a scale of their own (a gradient of 1e30 does not overflow its
/// square), blocks in double in a fixed order (sum_of_blocks): the bits depend on nothing but the values.
GradientScan scan_gradients(FlatParameters& parameters);

/// The float whose bits are `word`, as double.
double magnitude_of(std::uint32_t word);

}  // namespace binade::optim
