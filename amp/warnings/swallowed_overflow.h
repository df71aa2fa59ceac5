#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/warning.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Detects infinities and NaNs that ops store in steps that commit, because a later op turns them into finite numbers
/// (as tanh, sigmoid, clamp or a denominator does). The values are lost, but the loss is finite.
///
/// Reads the telemetry of every 4th step (find_swallowed_infinities). An op that stored such a value in 3 of these
/// steps is reported, once per op and module.
class SwallowedOverflow {
 public:
  static constexpr const char* kSection = "swallowed_overflow";  ///< name of the state in checkpoints
  static constexpr std::int64_t kStepsBetweenChecks = 4;
  static constexpr std::int64_t kChecks = 3;  ///< checks with an infinity that lead to a warning

  /// Returns true if this step is checked.
  bool due(std::int64_t step) const { return step % kStepsBetweenChecks == 0; }
  /// Adds warnings of this step to `found`.
  void find(const CommittedStep& step, std::vector<Warning>& found);

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  /// An op that computed an infinity in a committed step.
  struct Place {
    std::string target{};     // "PATH/op"
    std::int64_t checks = 0;  // number of checks with an infinity
    std::int64_t last = 0;    // step of the last check with an infinity
  };
  std::vector<Place> places_;
};

}  // namespace binade::amp
