#pragma once

#include <optional>
#include <string>

#include "binade/core/state_dict.h"

namespace binade::io {

/// Names the first entry that holds a NaN or an infinity, with its index; nothing when all numbers are finite.
std::optional<std::string> first_non_finite(const StateDict& state);

}  // namespace binade::io
