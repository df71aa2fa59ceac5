#pragma once

#include <cstdint>
#include <string_view>

#include "binade/amp/watch/telemetry.h"

namespace binade::amp {

/// Why the parameters of a module get no gradient other than 0.
struct MissingGradient {
  enum class Reason : std::uint8_t {
    kUnknown,
    kNotCalled,  ///< no op ran in the module
    kCut,        ///< ops ran in the module, but backward did not reach them
    kMadeZero,   ///< backward reached them with gradients of 0, which `op` made
    kUnderflow,  ///< the same, and `op` made them of nonzero values, which its 16-bit dtype rounds to 0
    kZeroInput,  ///< gradients reached them, but their input, the result of `op`, is 0
  };
  Reason reason = Reason::kUnknown;
  const Telemetry::OpRecord* op = nullptr;  ///< null for the other reasons
};

/// Finds the reason in the telemetry of a step with Telemetry::Probes::limits. `module`: path of a module whose
/// parameters have no gradient other than 0 in this step.
MissingGradient why_no_gradient(const Telemetry& telemetry, std::string_view module);

}  // namespace binade::amp
