#pragma once

#include <string>

#include "binade/core/error.h"
#include "binade/core/state_dict.h"

namespace binade {

/// The largest count that a state may hold: a double represents it exactly, and counting up from it does not overflow.
inline constexpr std::int64_t kMostCount = 1'000'000'000'000'000;

/// Reads the count `name` from an untrusted state. Throws CheckpointError naming the entry when it is missing, of
/// another kind, or outside `least` … kMostCount.
inline std::int64_t read_count(const StateDict& state, const std::string& name, std::int64_t least = 0) {
  const std::int64_t value = state.integer(name);
  check<CheckpointError>(value >= least && value <= kMostCount, "state: wanted '{}' from {} to {}, got {}", name, least,
                         kMostCount, value);
  return value;
}

/// Reads a list of counts in the same way.
inline const StateDict::Integers& read_counts(const StateDict& state, const std::string& name, std::int64_t least = 0) {
  const StateDict::Integers& values = state.integers(name);
  for (const std::int64_t value : values)
    check<CheckpointError>(value >= least && value <= kMostCount, "state: wanted numbers from {} to {} in '{}', got {}",
                           least, kMostCount, name, value);
  return values;
}

}  // namespace binade
