#pragma once

#include <vector>

#include "core/state_dict.h"

namespace binade::amp {

/// Tells a finite loss that no healthy run would show from ordinary noise.
///
/// It is judged by the `window` losses accepted before the latest kTelemetryDelay (a device may be that far ahead of
/// the host). Their median and median absolute deviation stay what they are when half of them are wild. Absurd is what
/// exceeds the median by `spread` deviations and by `relative` of itself, and besides either
///
/// - the median by `ratio_spread` deviations of the logarithm: small losses have long tails, as a batch without a
///   single foreground pixel has, and what is 15 times the median there may be nothing, or
/// - every loss that counted so far: no batch makes a network worse than an untrained one.
///
/// A loss that is not finite is another check's business: it is neither absurd nor ever remembered.
class SpikeGuard {
 public:
  struct Options {
    int window = 128;
    int least = 24;            ///< losses that count before anything is judged
    double spread = 16;        ///< robust standard deviations
    double relative = 0.75;    ///< of the median: noise below this never counts, however quiet the window
    double ratio_spread = 12;  ///< robust standard deviations of the logarithm
  };

  /// Throws ArgumentError naming the option that is out of range.
  explicit SpikeGuard(const Options& options);
  SpikeGuard() : SpikeGuard(Options{}) {}

  bool absurd(double loss) const;
  /// The largest loss that is not absurd now, or when `ahead` more are accepted (fewer than kTelemetryDelay, whatever
  /// they are); infinity while too few count.
  double bound(std::int64_t ahead = 0) const;
  /// A step with this loss was committed.
  void accepted(double loss);

  StateDict state() const;
  /// Throws CheckpointError on a state that no run leaves behind. An empty one starts over.
  void load_state(const StateDict& state);

 private:
  Options options_;
  std::vector<double> losses_;  // oldest first; the latest kTelemetryDelay do not count yet
  double largest_ = 0;          // of those that ever counted
};

}  // namespace binade::amp
