#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"

namespace binade {

/// Connectionist temporal classification (formulas in core/ops/ctc.h). x: log-probabilities (steps, samples, classes).
/// Sample n has the labels targets[n, 0 … target_lengths[n]) and uses the first input_lengths[n] steps. All tensors are
/// contiguous. Computed in double, rounded once.
struct CtcArgs {
  bool backward = false;
  bool zero_infinity = false;  ///< true: a sample without a path has loss and gradient 0
  std::int64_t steps = 0, samples = 0, classes = 0;
  std::int64_t width = 0;  ///< extent of the targets (samples, width)
  std::int64_t blank = 0;
  In x{};
  const std::int64_t* targets = nullptr;
  const std::int64_t *input_lengths = nullptr, *target_lengths = nullptr;  ///< (samples)
  In gy{};                                                                 ///< backward: (samples)
  Out out{};  ///< forward: the losses (samples); backward: the gradient of x
  /// Identify the call in the report of a bad target or length (core/faults.h).
  std::uint64_t target_call = 0, input_length_call = 0, target_length_call = 0;
};

}  // namespace binade
