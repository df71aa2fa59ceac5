#pragma once

#include <optional>
#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/warning.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Detects gradient norms that are unusual in the run: norms that stay high, or a single norm that is far too high.
///
/// Norms are judged in binades (log2), relative to the median of the 128 committed steps before the newest 8. A warning
/// is reported if all of the newest 8 are 3 binades and 4 robust deviations above the median, or if the newest alone is
/// 7 binades and 12 deviations above it; a run whose norms always scatter widely gets no warning. The next warning is
/// possible after 8 norms in a row were at most a binade above the median. Norms that are 0 or not finite are ignored.
class GradientHistory {
 public:
  static constexpr const char* kSection = "gradients";  ///< name of the state in checkpoints
  /// The report of a gradient norm that is far above earlier ones.
  struct Growth {
    double binades = 0;  ///< distance of the newest norm above the median, in binades
    double median = 0;   ///< median of the earlier norms
    bool lasts = false;  ///< true: the eight newest norms are high; false: the newest alone is
  };
  /// Adds the gradient norm, before clipping, of a committed step. Returns a value if growth is to be reported. Norms up
  /// to `clip_norm` are never reported, because the program has named them as normal.
  std::optional<Growth> observe(double norm, double clip_norm = 0);
  /// Adds warnings of this step to `found`.
  void find(const CommittedStep& step, std::vector<Warning>& found);

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  std::vector<double> norms_;  // log2 of the norms, oldest first
  bool reported_ = false;
};

}  // namespace binade::amp
