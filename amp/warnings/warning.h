#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace binade::amp {

/// The event or defect that a warning reports.
enum class WarningKind : std::uint8_t {
  kOverflow,             ///< a tensor will leave the range of its dtype
  kSingularity,          ///< an operand will reach a singularity of its op
  kCollapse,             ///< attention concentrates on single keys
  kDivergence,           ///< the loss is far above the run's first loss
  kGradients,            ///< gradients are far larger than before in the run
  kUnderflow,            ///< values become 0 when they are rounded to 16 bits
  kStagnation,           ///< updates are too small to change the weights
  kSwallowedOverflow,    ///< an op stores infinities that a later op makes finite
  kUntrainedParameters,  ///< parameters get no gradient, or a gradient of exactly 0
  kEvaluationMismatch,   ///< running statistics of a batch norm do not describe the batches
  kUnusedSetting,        ///< a setting has no effect
  kPole [[deprecated("use kSingularity")]] = kSingularity,
};
constexpr std::string_view name_of(WarningKind kind) {
  switch (kind) {
    case WarningKind::kOverflow: return "overflow ahead";
    case WarningKind::kSingularity: return "pole ahead";
    case WarningKind::kCollapse: return "attention collapse ahead";
    case WarningKind::kDivergence: return "divergence";
    case WarningKind::kGradients: return "gradients grow";
    case WarningKind::kUnderflow: return "silent underflow";
    case WarningKind::kStagnation: return "stagnation";
    case WarningKind::kSwallowedOverflow: return "swallowed overflow";
    case WarningKind::kUntrainedParameters: return "untrained parameters";
    case WarningKind::kEvaluationMismatch: return "evaluation differs";
    case WarningKind::kUnusedSetting: return "unused setting";
  }
  return "";
}

/// A trend in committed steps that leads to non-finite numbers or to wasted training. The run continues.
struct Warning {
  WarningKind kind = WarningKind::kOverflow;
  std::int64_t step = 0;  ///< the step whose telemetry shows the warning
  std::string module{};   ///< path of the innermost module; empty at the root
  std::string op{};
  std::string direction{};  ///< "forward", "backward", "optimizer"
  std::string dtype{};
  std::string what{};    ///< the observation and its consequence, one line
  std::string advice{};  ///< recommended change
  std::string remedy{};  ///< the planned remedy, one line; empty: none
  /// For kOverflow, kSingularity, kCollapse: number of steps until the event, if the trend continues
  double steps_left = 0;
  double confidence = 1;  ///< probability that the predicted event happens
  bool promotes = false;  ///< the run computes the op in f32 from step + kTelemetryDelay on (the planned remedy)
};

/// Returns "'matmul' in blocks.0.attention (forward)"; "the whole model" for a warning with neither op nor module.
std::string location_of(const Warning& warning);
/// Returns the name of the op for --override, such as "blocks.0.attention/matmul".
std::string target_of(const Warning& warning);
[[deprecated("use location_of()")]] inline std::string place_of(const Warning& warning) { return location_of(warning); }

using SignKind [[deprecated("use WarningKind")]] = WarningKind;
using Sign [[deprecated("use Warning")]] = Warning;

}  // namespace binade::amp
