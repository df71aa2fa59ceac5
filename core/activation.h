#pragma once

#include <cstdint>

namespace binade {

/// Activation that a matrix product applies to its result before storing it. kGelu is x Phi(x), where Phi is the
/// normal distribution function; kGeluTanh is its tanh approximation.
enum class Activation : std::uint8_t { kNone, kRelu, kGelu, kGeluTanh };

}  // namespace binade
