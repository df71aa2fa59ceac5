#pragma once

#include <optional>
#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/warning.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Detects divergence: a loss that stays far above the run's first loss.
///
/// Divergence is reported if each of the latest 5 losses is more than 8 times the first, and if the median of log(loss
/// / first) over them is more than 8 times the median |log(loss / previous loss)| over the latest 33. The second
/// condition is needed because losses of single samples scatter widely. Divergence is reported again only after 5
/// losses in a row were below twice the first. Detection starts at step 6; SpikeGuard needs more losses. A run that had
/// a loss <= 0 is not judged, because ratios to such losses have no meaning. Losses that are not finite are ignored.
class Divergence {
 public:
  static constexpr const char* kSection = "divergence";
  struct Growth {
    double first = 0;
    double ratio = 0;  ///< median of the latest losses, divided by the first
  };
  /// Adds the loss of a committed step. Returns a value if divergence is to be reported.
  std::optional<Growth> observe(double loss);
  void find(const CommittedStep& step, std::vector<Warning>& found);
  /// True if the latest loss is more than 8 times the first.
  bool is_high() const;

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  std::vector<double> losses_;  // the first loss of the run, then the latest 33, oldest first
  bool reported_ = false;
  bool had_nonpositive_loss_ = false;
};

}  // namespace binade::amp
