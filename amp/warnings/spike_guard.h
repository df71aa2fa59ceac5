#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "binade/core/state_dict.h"

namespace binade::amp {

/// Detects loss spikes: steps whose loss is finite but absurdly high, and whose gradient norm is an outlier as well.
///
/// Both are compared with the `window` committed steps before the latest kTelemetryDelay (a device may be that far
/// ahead of the host), by median and median absolute deviation: outliers in up to half of the window hardly move them.
/// A loss is absurd if it exceeds the median by `spread` deviations and by `relative` times the median, and also
/// exceeds either
///
/// - the median by `ratio_spread` deviations of the logarithm: small losses have long tails (a batch without a single
///   foreground pixel may have 15 times the median), or
/// - every earlier loss of the run: no batch makes a network worse than an untrained one.
///
/// No loss is absurd if half of the window is one number, or if the window has losses <= 0 and its median is within a
/// deviation of 0: it does not show what is usual. Losses of both signs, and losses that are 0 for most batches, give
/// such windows. A norm is an outlier if its logarithm differs from the median logarithm by more than `norm_spread`
/// deviations and more than `norm_binades` factors of 2, in either direction: gradients explode, or a network is dead.
///
/// Losses that are not finite are no spikes, and are ignored: another check handles them.
class SpikeGuard {
 public:
  struct Options {
    int window = 128;
    int min_losses = 24;       ///< with fewer losses to compare with, no step is a spike
    double spread = 16;        ///< robust deviations of the loss
    double relative = 0.75;    ///< share of the median that a loss must exceed it by, however quiet the window is
    double ratio_spread = 12;  ///< robust deviations of the logarithm of the loss
    double norm_spread = 6;    ///< robust deviations of the logarithm of the norm
    double norm_binades = 1;   ///< distance from the median up to which a norm is no outlier
  };

  /// Throws ArgumentError naming the option that is out of range.
  explicit SpikeGuard(const Options& options);
  SpikeGuard() : SpikeGuard(Options{}) {}

  /// True if a step with this loss and gradient norm (before clipping) is a spike.
  bool is_spike(double loss, double grad_norm) const;
  /// Returns the largest loss that is no spike for any norm, valid until `ahead` < kTelemetryDelay more steps with any
  /// losses are added. Infinite if there are too few losses, or if the window does not show what is usual.
  double bound(std::int64_t ahead = 0) const;
  /// Adds a committed step.
  void add(double loss, double grad_norm);

  StateDict state() const;
  /// Throws CheckpointError for a state that no run writes. An empty state starts over.
  void load_state(const StateDict& state);

 private:
  std::span<const double> window(const std::vector<double>& values, std::int64_t ahead) const;
  bool norm_is_outlier(double grad_norm) const;

  Options options_;
  std::vector<double> losses_;  // oldest first; steps are not yet compared with the latest kTelemetryDelay
  std::vector<double> norms_;   // of the same steps
  double largest_ = 0;          // loss of the run, except the latest kTelemetryDelay
};

}  // namespace binade::amp
