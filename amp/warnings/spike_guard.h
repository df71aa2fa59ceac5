#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "binade/core/state_dict.h"

namespace binade::amp {

/// Detects loss spikes: steps whose loss is finite but absurdly high, and whose gradient norm is an outlier as well.
///
/// Loss and norm are compared with those of the window: `window` committed steps before the latest kTelemetryDelay,
/// which may still be in flight. The comparison uses the median and the robust deviation, which outliers in up to half
/// of the window hardly change. A loss is absurd if it exceeds the median by `spread` deviations and by `relative`
/// times the median, and also exceeds either
///
/// - the median by `ratio_spread` deviations of the logarithm, because small losses often have a few values far above
///   the median (a batch without a single foreground pixel may have 15 times the median), or
/// - every earlier loss of the run: no batch makes a network worse than an untrained one.
///
/// No loss is absurd if half of the losses in the window are equal, or if the window has losses <= 0 and its median is
/// within a deviation of 0: such a window does not show which losses are usual. Losses of both signs, and losses that
/// are 0 for most batches, give such windows. A norm is an outlier if its logarithm differs from the median logarithm
/// by more than `norm_spread` deviations and more than `norm_binades` factors of 2, in either direction: gradients
/// explode, or a network is dead.
///
/// A spike alone is no reason to skip a batch: SpikeReview (amp/step/spike_review.h) judges it by the loss of the next
/// batch.
///
/// Losses that are not finite are no spikes and are ignored here, because the verdict has another check for them.
class SpikeGuard {
 public:
  /// Limits above which a step is a spike.
  struct Options {
    int window = 128;          ///< number of latest losses that a loss is compared with
    int min_losses = 24;       ///< if the window has fewer losses, no step is a spike
    double spread = 16;        ///< least excess of a spike over the median, in robust deviations of the losses
    double relative = 0.75;    ///< least excess of a spike over the median, divided by the median
    double ratio_spread = 12;  ///< least excess over the median, in robust deviations of the logarithms of the losses
    /// Least distance of an outlier from the median, in robust deviations of the logarithms of the norms
    double norm_spread = 6;
    double norm_binades = 1;  ///< binades from the median within which a norm is never an outlier
  };

  /// Throws ArgumentError naming the option that is out of range.
  explicit SpikeGuard(const Options& options);
  SpikeGuard() : SpikeGuard(Options{}) {}

  /// True if a step with this loss and gradient norm (before clipping) is a spike.
  bool is_spike(double loss, double grad_norm) const;
  /// True if `loss` shows that data and weights have not changed: `loss` is not above all losses of the window, and
  /// fewer than half of the latest kTelemetryDelay losses are above nine in ten of them. False if the window has too
  /// few losses, or if `loss` is not finite.
  bool is_usual(double loss) const;
  /// Returns a loss up to which no step is a spike, whatever its norm is. Holds for the step after `ahead` <
  /// kTelemetryDelay more steps, whatever their losses are. Infinite if there are too few losses, or if the window does
  /// not show which losses are usual.
  double bound(std::int64_t ahead = 0) const;
  /// Adds a committed step.
  void add(double loss, double grad_norm);

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  std::span<const double> window(const std::vector<double>& values, std::int64_t ahead) const;
  bool norm_is_outlier(double grad_norm) const;

  Options options_;
  std::vector<double> losses_;  // oldest first; the latest kTelemetryDelay are not in the window yet
  std::vector<double> norms_;   // gradient norms of the same steps
  double largest_loss_ = 0;     // largest loss of the run, without the latest kTelemetryDelay steps
};

}  // namespace binade::amp
