#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "binade/core/state_dict.h"

namespace binade::amp {

/// Tells a step that no healthy run would show from ordinary noise: its loss is finite and absurd, and its gradients'
/// norm lies as far from what it was.
///
/// Both are judged by the `window` steps accepted before the latest kTelemetryDelay (a device may be that far ahead of
/// the host). Median and median absolute deviation stay what they are when half of a window is wild. A loss is absurd
/// when it exceeds the median by `spread` deviations and by `relative` of itself, and besides either
///
/// - the median by `ratio_spread` deviations of the logarithm: small losses have long tails, as a batch without a
///   single foreground pixel has, and what is 15 times the median there may be nothing, or
/// - every loss that counted so far: no batch makes a network worse than an untrained one.
///
/// A window that is half of one number, or has losses at or below 0 and its median within a deviation of it, says
/// nothing about what is usual: then no loss is absurd. That is one of both signs, and one that most batches bring to
/// 0. A norm is far out when its logarithm lies `norm_spread` deviations, and the norm at least `norm_binades` factors
/// of 2, from the median's, on either side: gradients explode, or a network is dead.
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
    double norm_spread = 6;    ///< of the logarithms of norms
    double norm_binades = 1;   ///< nearer to the median a norm is never far out
  };

  /// Throws ArgumentError naming the option that is out of range.
  explicit SpikeGuard(const Options& options);
  SpikeGuard() : SpikeGuard(Options{}) {}

  /// Whether a step with this loss and norm of gradients (before clipping) is to be answered.
  bool absurd(double loss, double grad_norm) const;
  /// The largest loss that is not absurd now, whatever the norm, or when `ahead` more are accepted (fewer than
  /// kTelemetryDelay, whatever they are); infinity while too few count and where the window says nothing.
  double bound(std::int64_t ahead = 0) const;
  /// A step was committed.
  void accepted(double loss, double grad_norm);

  StateDict state() const;
  /// Throws CheckpointError on a state that no run leaves behind. An empty one starts over.
  void load_state(const StateDict& state);

 private:
  std::span<const double> window(const std::vector<double>& values, std::int64_t ahead) const;
  bool far_out(double grad_norm) const;

  Options options_;
  std::vector<double> losses_;  // oldest first; the latest kTelemetryDelay do not count yet
  std::vector<double> norms_;   // of the same steps
  double largest_ = 0;          // of those that ever counted
};

}  // namespace binade::amp
