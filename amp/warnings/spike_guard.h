#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "binade/core/state_dict.h"

namespace binade::amp {

/// Distinguishes a step that no healthy run would show from ordinary noise: its loss is finite and absurd, and the norm
/// of its gradients is far out as well.
///
/// Both are compared with the `window` steps accepted before the latest kTelemetryDelay (a device may be that far ahead
/// of the host). Median and median absolute deviation are robust: outliers in up to half of a window hardly move them.
/// A loss is absurd when it exceeds the median by `spread` deviations and by `relative` times the median, and in
/// addition exceeds either
///
/// - the median by `ratio_spread` deviations of the logarithm: small losses have long tails, as a batch without a
/// single foreground pixel has, and 15 times the median may be normal there, or
/// - every loss that counted so far: no batch makes a network worse than an untrained one.
///
/// If half of a window is one number, or if it has losses at or below 0 and its median is within a deviation of 0, it
/// does not show what is usual, and no loss is absurd. Losses of both signs, and losses that are 0 for most batches,
/// give such windows. A norm is far out when its logarithm differs from the median logarithm by more than `norm_spread`
/// deviations and by more than `norm_binades` factors of 2, on either side: gradients explode, or a network is dead.
///
/// Another check handles a loss that is not finite: here it is neither absurd nor stored.
class SpikeGuard {
 public:
  struct Options {
    int window = 128;
    int least = 24;            ///< losses that count before anything is judged
    double spread = 16;        ///< robust standard deviations
    double relative = 0.75;    ///< of the median: noise below this never counts, however quiet the window
    double ratio_spread = 12;  ///< robust standard deviations of the logarithm
    double norm_spread = 6;    ///< robust standard deviations of the logarithms of norms
    double norm_binades = 1;   ///< a norm nearer to the median is never far out
  };

  /// Throws ArgumentError naming the option that is out of range.
  explicit SpikeGuard(const Options& options);
  SpikeGuard() : SpikeGuard(Options{}) {}

  /// Whether a step with this loss and gradient norm (before clipping) is a spike.
  bool absurd(double loss, double grad_norm) const;
  /// The largest loss that is not absurd, whatever the norm, now or after `ahead` more steps are accepted (fewer than
  /// kTelemetryDelay, whatever their losses); infinity while too few losses count, and if the window does not show what
  /// is usual.
  double bound(std::int64_t ahead = 0) const;
  /// Call when a step was committed.
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
