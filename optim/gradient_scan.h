#pragma once

#include <cstdint>
#include <vector>

#include "binade/optim/flat_parameters.h"

namespace binade::optim {

/// Largest magnitudes and sum of squares of all gradients, as stored (multiplied by the loss scale).
struct GradientScan {
  /// One per parameter: the bits of the largest |g| as a float. Larger words are larger magnitudes; 0x7f800000 is
  /// infinity, and anything above is NaN. 0 if the parameter has no gradient.
  std::vector<std::uint32_t> words{};
  std::uint32_t largest = 0;  ///< the largest of `words`
  double sum_squares = 0;     ///< sum of all g^2; meaningful only if finite()
  std::size_t gradients = 0;  ///< number of parameters that have a gradient

  bool finite() const { return largest < 0x7f800000u; }
  bool has_nan() const { return largest > 0x7f800000u; }
  double norm() const;  ///< sqrt(sum_squares); inf or NaN if a gradient is not finite
};

/// Reads all gradients once. Squares are summed in f32 in blocks of 4,096 elements, each block scaled by its own power
/// of two, so that no square overflows (not even that of 1e30). The sums of the blocks are added in double in a fixed
/// order (sum_of_blocks), so that the bits depend on the gradients alone.
GradientScan scan_gradients(FlatParameters& parameters);
/// Reads the gradients of several optimizers as one: `words` has those of all parameters, in this order. The sum of the
/// squares has the bits that a single optimizer of all these parameters would give. `all` must not be empty.
GradientScan scan_gradients(std::span<FlatParameters* const> all);

/// Returns the float whose bits are `word`, as double.
double magnitude_of(std::uint32_t word);

}  // namespace binade::optim
