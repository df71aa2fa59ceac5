#pragma once

#include <optional>
#include <vector>

#include "binade/core/state_dict.h"

namespace binade::amp {

/// Tells a run that diverges: a loss that stays far above the one it began with.
///
/// Told is when each of the latest 5 losses is more than 8 times the run's first, and their middle lies above the first
/// by 8 times what neighbors among the latest 33 differ by (medians of logarithms): losses of single samples scatter as
/// widely and mean nothing. Once, until 5 losses in a row are below twice the first. It speaks from step 6 on, when the
/// guards that go by a window of losses have seen too little. A run whose first loss is not above 0, or that had a loss
/// at or below 0, is not judged: ratios of such losses mean nothing. A loss that is not finite is neither judged nor
/// remembered.
class Divergence {
 public:
  struct Growth {
    double first = 0;
    double ratio = 0;  ///< of the latest losses' median to the first
  };
  /// The loss of a committed step.
  std::optional<Growth> observe(double loss);

  StateDict state() const;
  /// Throws CheckpointError on a state that no run leaves behind. An empty one starts over.
  void load_state(const StateDict& state);

 private:
  std::vector<double> losses_;  // the first, then the latest 33, oldest first
  bool told_ = false;
  bool signed_ = false;  // a loss was 0 or below
};

}  // namespace binade::amp
