#pragma once

#include <string>

#include "binade/core/error.h"
#include "binade/core/state_dict.h"

namespace binade {

/// The largest count that a state may hold. A double represents it exactly, and counting up from it does not overflow.
inline constexpr std::int64_t kMaxCount = 1'000'000'000'000'000;

/// Reads the count `name` from an untrusted state. Throws CheckpointError with the entry's name if it is missing, not
/// an integer, or outside [`least`, kMaxCount].
inline std::int64_t read_count(const StateDict& state, const std::string& name, std::int64_t least = 0) {
  const std::int64_t value = state.integer(name);
  check<CheckpointError>(value >= least && value <= kMaxCount, "state: wanted '{}' from {} to {}, got {}", name, least,
                         kMaxCount, value);
  return value;
}

/// Reads the list of counts `name`. Throws CheckpointError as read_count() does, for each element of the list.
inline const StateDict::Integers& read_counts(const StateDict& state, const std::string& name, std::int64_t least = 0) {
  const StateDict::Integers& values = state.integers(name);
  for (const std::int64_t value : values)
    check<CheckpointError>(value >= least && value <= kMaxCount, "state: wanted numbers from {} to {} in '{}', got {}",
                           least, kMaxCount, name, value);
  return values;
}

}  // namespace binade
