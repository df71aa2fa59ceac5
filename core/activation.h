#pragma once

#include <cstdint>

namespace binade {

/// What a product applies as it stores. GELU is x Phi(x): with erf, or in the tanh form.
enum class Activation : std::uint8_t { kNone, kRelu, kGelu, kGeluTanh };

}  // namespace binade
