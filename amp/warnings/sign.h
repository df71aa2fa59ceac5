#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace binade::amp {

enum class SignKind : std::uint8_t {
  kOverflow,    ///< a tensor will leave the range of its dtype
  kPole,        ///< an operand will reach the pole of its op
  kCollapse,    ///< attention narrows to single keys
  kDivergence,  ///< the loss is far above the one that the run began with
  kGradients,   ///< gradients are larger than the run's history explains
  kUnderflow,   ///< gradients vanish on their way to 16 bits
  kStagnation,  ///< updates are too small to change the weights
};
std::string_view name_of(SignKind kind);

/// Something that a healthy step shows before a number goes bad. Nothing was aborted; the run goes on.
struct Sign {
  SignKind kind = SignKind::kOverflow;
  std::int64_t step = 0;  ///< whose telemetry shows it
  std::string module{};   ///< innermost path; empty at the root
  std::string op{};
  std::string direction{};  ///< "forward", "backward", "optimizer"
  std::string dtype{};
  std::string what{};     ///< what was seen and what it leads to, one line
  std::string advice{};   ///< what to change
  std::string remedy{};   ///< what will be done about it, one line; empty: nothing
  double steps_left = 0;  ///< kOverflow, kPole, kCollapse: until it happens, if nothing changes
  double confidence = 1;  ///< that it does
};

/// "'matmul' in blocks.0.attention (forward)"
std::string place_of(const Sign& sign);

}  // namespace binade::amp
