#pragma once

#include <vector>

#include "core/state_dict.h"

namespace binade::amp {

/// Tells a finite loss that no healthy run would show from ordinary noise: far above the losses accepted before it.
///
/// The bound is median + max(spread x deviation, relative x |median|) over the latest `window` accepted losses; the
/// deviation is the median absolute one, so that half of the window may be wild. A loss that is not finite is another
/// check's business: it is neither absurd nor ever remembered.
class SpikeGuard {
 public:
  struct Options {
    int window = 128;
    int least = 32;          ///< accepted losses before anything is judged
    double spread = 16;      ///< robust standard deviations
    double relative = 0.75;  ///< of the median: noise below this never counts, however quiet the window
  };

  /// Throws ArgumentError naming the option that is out of range.
  explicit SpikeGuard(const Options& options);
  SpikeGuard() : SpikeGuard(Options{}) {}

  bool absurd(double loss) const;
  /// The largest loss that is not absurd now; infinity while too few were accepted.
  double bound() const;
  /// A step with this loss was committed.
  void accepted(double loss);

  StateDict state() const;
  /// Throws CheckpointError on a state that no run leaves behind. An empty one starts over.
  void load_state(const StateDict& state);

 private:
  Options options_;
  std::vector<double> losses_;  // oldest first
};

}  // namespace binade::amp
