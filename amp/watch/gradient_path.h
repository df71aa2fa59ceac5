#pragma once

#include <cstdint>
#include <string_view>

#include "binade/amp/watch/telemetry.h"

namespace binade::amp {

/// The reason why all gradients of a module's parameters are missing or 0.
struct MissingGradient {
  enum class Reason : std::uint8_t {
    kUnknown,
    kNotCalled,  ///< no op ran in the module
    kCut,        ///< ops ran in the module, but backward did not reach them
    kMadeZero,   ///< backward reached the module with gradients of 0, which `op` computed
    kUnderflow,  ///< as kMadeZero, because the 16-bit dtype of `op` rounded nonzero values to 0
    kZeroInput,  ///< gradients reached the module, but its input, the result of `op`, is 0
  };
  Reason reason = Reason::kUnknown;
  const Telemetry::OpRecord* op = nullptr;  ///< the op that the reason names; null if it names none
};

/// Finds the reason in the telemetry of a step with Telemetry::Probes::limits. `module`: path of a module all of whose
/// gradients are missing or 0 in this step.
MissingGradient why_no_gradient(const Telemetry& telemetry, std::string_view module);

}  // namespace binade::amp
