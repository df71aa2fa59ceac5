#pragma once

#include <optional>
#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/warning.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Detects divergence: a loss that stays far above the run's first loss.
///
/// Divergence is reported when each of the latest 5 losses is more than 8 times the run's first, and the median
/// logarithm of their ratio to the first is more than 8 times the median difference between the logarithms of
/// consecutive losses among the latest 33: losses of single samples scatter that widely without diverging. It is
/// reported once, until 5 losses in a row are below twice the first. Detection starts at step 6, when the guards that
/// use a window of losses have too few. A run that had a loss at or below 0 is not judged, because ratios of such
/// losses mean nothing. A loss that is not finite is neither judged nor stored.
class Divergence {
 public:
  static constexpr const char* kSection = "divergence";
  struct Growth {
    double first = 0;
    double ratio = 0;  ///< median of the latest losses, divided by the first
  };
  /// Takes the loss of a committed step; returns a value when divergence is to be reported.
  std::optional<Growth> observe(double loss);
  void find(const CommittedStep& step, std::vector<Warning>& found);

  StateDict state() const;
  /// Throws CheckpointError on a state that no run leaves behind. An empty one starts over.
  void load_state(const StateDict& state);

 private:
  std::vector<double> losses_;  // the first, then the latest 33, oldest first
  bool told_ = false;
  bool signed_ = false;  // a loss was 0 or below
};

}  // namespace binade::amp
