#pragma once

#include <optional>
#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/warning.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Detects gradient norms that the run's own history does not explain: norms that stay high, or a single norm that is
/// far too high.
///
/// Norms are judged in binades (log2) by the median of the 128 committed steps before the newest 8. A warning is
/// reported when all of those 8 are 3 binades and 4 robust deviations above the median, or the newest alone is 7
/// binades and 12 deviations above it; a run whose norms always scatter widely gets no warning. It is reported once,
/// until 8 norms in a row are back within a binade. A norm that is 0 or not finite is neither judged nor stored.
class GradientHistory {
 public:
  static constexpr const char* kSection = "gradients";
  struct Growth {
    double binades = 0;  ///< above the median
    double median = 0;   ///< norm
    bool lasts = false;  ///< eight steps in a row; otherwise this one alone
  };
  /// The norm, before clipping, of a committed step.
  std::optional<Growth> observe(double norm);
  void find(const CommittedStep& step, std::vector<Warning>& found);

  StateDict state() const;
  /// Throws CheckpointError on a state that no run leaves behind. An empty one starts over.
  void load_state(const StateDict& state);

 private:
  std::vector<double> norms_;  // log2, oldest first
  bool told_ = false;
};

}  // namespace binade::amp
