#include "binade/amp/warnings/spike_guard.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/warnings/trend.h"

namespace binade::amp {
namespace {

/// Returns the logarithm of x >= 0. Treats 0 as the smallest normal number, so that the result is finite.
double log_of(double x) { return std::log(std::max(x, std::numeric_limits<double>::min())); }

}  // namespace

SpikeGuard::SpikeGuard(const Options& options) : options_(options) {
  check<ArgumentError>(options.min_losses >= 1 && options.window >= options.min_losses && options.spread > 0 &&
                           options.ratio_spread > 0 && options.relative >= 0 && options.norm_spread >= 0 &&
                           options.norm_binades >= 0,
                       "spike guard: wanted 1 <= min_losses <= window, spreads > 0, relative and norm's bounds >= 0, "
                       "got {}, {}, {}, {}, {}, "
                       "{} and {}",
                       options.min_losses, options.window, options.spread, options.ratio_spread, options.relative,
                       options.norm_spread, options.norm_binades);
}

/// Returns the part of `values` with which the step after `ahead` more steps is compared, at most Options::window of
/// them; empty if there are too few.
std::span<const double> SpikeGuard::window(const std::vector<double>& values, std::int64_t ahead) const {
  const std::int64_t count = std::ssize(values) - kTelemetryDelay + ahead;
  if (count < options_.min_losses) return {};
  const std::int64_t size = std::min<std::int64_t>(count, options_.window);
  return std::span(values).subspan(static_cast<std::size_t>(count - size), static_cast<std::size_t>(size));
}

double SpikeGuard::bound(std::int64_t ahead) const {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const std::span<const double> losses = window(losses_, ahead);
  if (losses.empty()) return kNone;
  const auto [middle, deviation] = robust_statistics({losses.begin(), losses.end()});
  const bool at_zero = std::abs(middle) <= deviation && std::ranges::min(losses) <= 0;
  if (!(deviation > 0) || at_zero) return kNone;
  const double bound = middle + std::max(options_.spread * deviation, options_.relative * std::abs(middle));
  if (middle < 0) return bound;
  std::vector<double> log_distances;
  for (const double loss : losses) log_distances.push_back(std::abs(log_of(loss) - log_of(middle)));
  const double ratio = std::exp(options_.ratio_spread * kDeviationPerMad * median(log_distances));
  double largest = largest_loss_;
  for (const double loss : losses.last(static_cast<std::size_t>(ahead))) largest = std::max(largest, loss);
  return std::max(bound, std::min(middle * ratio, largest));
}

bool SpikeGuard::norm_is_outlier(double grad_norm) const {
  std::vector<double> logs;
  for (const double norm : window(norms_, 0)) logs.push_back(log_of(norm));
  if (logs.empty() || !(grad_norm >= 0)) return false;
  const auto [middle, deviation] = robust_statistics(std::move(logs));
  const double limit = std::max(options_.norm_spread * deviation, options_.norm_binades * std::log(2.0));
  return std::abs(log_of(grad_norm) - middle) > limit;
}

bool SpikeGuard::is_spike(double loss, double grad_norm) const {
  return std::isfinite(loss) && !(loss <= bound()) && norm_is_outlier(grad_norm);
}

bool SpikeGuard::is_usual(double loss) const {
  // A quantile of the window. If losses are independent, half of the latest exceed it in one of 200 cases.
  constexpr double kRank = 0.9;
  const std::span<const double> losses = window(losses_, 0);
  if (losses.empty()) return false;
  std::vector<double> sorted(losses.begin(), losses.end());
  std::ranges::sort(sorted);
  const double high = sorted[static_cast<std::size_t>(kRank * static_cast<double>(sorted.size() - 1))];
  const auto latest = std::span(losses_).last(kTelemetryDelay);
  return loss <= sorted.back() &&
         2 * std::ranges::count_if(latest, [&](double l) { return l > high; }) < kTelemetryDelay;
}

void SpikeGuard::add(double loss, double grad_norm) {
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) return;
  losses_.push_back(loss);
  norms_.push_back(grad_norm);
  if (std::ssize(losses_) > kTelemetryDelay)
    largest_loss_ = std::max(largest_loss_, losses_[losses_.size() - 1 - kTelemetryDelay]);
  if (std::ssize(losses_) <= options_.window + kTelemetryDelay) return;
  losses_.erase(losses_.begin());
  norms_.erase(norms_.begin());
}

StateDict SpikeGuard::state() const {
  StateDict state;
  state.put("losses", losses_);
  state.put("norms", norms_);
  state.put("largest", largest_loss_);
  return state;
}

void SpikeGuard::load_state(const StateDict& state) {
  SpikeGuard loaded(options_);
  if (state.contains("norms")) {  // otherwise the guard starts over, because earlier versions stored only losses
    loaded.losses_ = state.numbers("losses");
    loaded.norms_ = state.numbers("norms");
    loaded.largest_loss_ = state.number("largest");
    const std::int64_t most = options_.window + kTelemetryDelay;
    const auto finite = [](double x) { return std::isfinite(x); };
    check<CheckpointError>(
        std::ssize(loaded.losses_) <= most && loaded.norms_.size() == loaded.losses_.size() &&
            finite(loaded.largest_loss_) && std::ranges::all_of(loaded.losses_, finite) &&
            std::ranges::all_of(loaded.norms_, [&](double x) { return finite(x) && x >= 0; }),
        "spike guard: the checkpoint holds {} losses and {} norms, wanted as many of each, at most {}, all finite",
        loaded.losses_.size(), loaded.norms_.size(), most);
  }
  *this = std::move(loaded);
}

}  // namespace binade::amp
