#pragma once

#include <optional>
#include <string>

#include "binade/core/state_dict.h"

namespace binade::io {

/// Describes the first NaN or infinity of a state by entry and index; returns std::nullopt if all numbers are finite.
std::optional<std::string> first_non_finite(const StateDict& state);

}  // namespace binade::io
