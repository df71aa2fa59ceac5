#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace binade::amp {

enum class WarningKind : std::uint8_t {
  kOverflow,     ///< a tensor will leave the range of its dtype
  kSingularity,  ///< an operand will reach the singularity of its op
  kCollapse,     ///< attention narrows to single keys
  kDivergence,   ///< the loss is far above the run's first loss
  kGradients,    ///< gradients are larger than the run's history explains
  kUnderflow,    ///< gradients vanish on their way to 16 bits
  kStagnation,   ///< updates are too small to change the weights
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
  }
  return "";
}

/// Something that a healthy step shows before a number goes bad. Nothing was aborted; the run goes on.
struct Warning {
  WarningKind kind = WarningKind::kOverflow;
  std::int64_t step = 0;  ///< the step whose telemetry shows the warning
  std::string module{};   ///< innermost path; empty at the root
  std::string op{};
  std::string direction{};  ///< "forward", "backward", "optimizer"
  std::string dtype{};
  std::string what{};     ///< the observation and its consequence, one line
  std::string advice{};   ///< what to change
  std::string remedy{};   ///< the planned remedy, one line; empty: none
  bool promotes = false;  ///< the run computes the op in f32 from step + kTelemetryDelay on; `remedy` says so
  double steps_left = 0;  ///< kOverflow, kSingularity, kCollapse: steps until it happens, if nothing changes
  double confidence = 1;  ///< probability that it happens
};

/// "'matmul' in blocks.0.attention (forward)"; "the whole model" for a warning with neither op nor module.
std::string place_of(const Warning& warning);
/// "blocks.0.attention/matmul": the op as --override names it.
std::string target_of(const Warning& warning);

using SignKind [[deprecated("use WarningKind")]] = WarningKind;
using Sign [[deprecated("use Warning")]] = Warning;

}  // namespace binade::amp
