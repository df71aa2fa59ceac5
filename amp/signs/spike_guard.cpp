#include "amp/signs/spike_guard.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "amp/loss_scaler.h"
#include "amp/signs/trend.h"
#include "core/error.h"

namespace binade::amp {
namespace {

constexpr double kDeviationOfMedian = 1.4826;  // median absolute deviation -> standard deviation, for normal noise

}  // namespace

SpikeGuard::SpikeGuard(const Options& options) : options_(options) {
  check<ArgumentError>(options.least >= 1 && options.window >= options.least && options.spread > 0 &&
                           options.ratio_spread > 0 && options.relative >= 0,
                       "spike guard: wanted 1 <= least <= window, spread > 0 and relative >= 0, got {}, {}, {} and {}",
                       options.least, options.window, options.spread, options.relative);
}

double SpikeGuard::bound(std::int64_t ahead) const {
  const std::int64_t count = static_cast<std::int64_t>(losses_.size()) - kTelemetryDelay + ahead;
  if (count < options_.least) return std::numeric_limits<double>::infinity();
  const auto end = losses_.begin() + count, begin = end - std::min<std::int64_t>(count, options_.window);
  const double largest = std::accumulate(end - ahead, end, largest_, [](double a, double b) { return std::max(a, b); });
  std::vector<double> values(begin, end);
  const double middle = median(values);
  for (double& x : values) x = std::abs(x - middle);
  const double deviation = kDeviationOfMedian * median(values);
  const double bound = middle + std::max(options_.spread * deviation, options_.relative * std::abs(middle));
  if (!(middle > 0)) return bound;
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::abs(
        std::log(std::max(begin[static_cast<std::ptrdiff_t>(i)] / middle, std::numeric_limits<double>::min())));
  const double ratio = std::exp(options_.ratio_spread * kDeviationOfMedian * median(values));
  return std::max(bound, std::min(middle * ratio, largest));
}

bool SpikeGuard::absurd(double loss) const { return std::isfinite(loss) && !(loss <= bound()); }

void SpikeGuard::accepted(double loss) {
  if (!std::isfinite(loss)) return;
  losses_.push_back(loss);
  if (static_cast<std::int64_t>(losses_.size()) > kTelemetryDelay)
    largest_ = std::max(largest_, losses_[losses_.size() - 1 - kTelemetryDelay]);
  if (static_cast<std::int64_t>(losses_.size()) > options_.window + kTelemetryDelay) losses_.erase(losses_.begin());
}

StateDict SpikeGuard::state() const {
  StateDict state;
  state.put("losses", losses_);
  state.put("largest", largest_);
  return state;
}

void SpikeGuard::load_state(const StateDict& state) {
  SpikeGuard loaded(options_);
  if (!state.empty()) {
    loaded.losses_ = state.numbers("losses");
    loaded.largest_ = state.number("largest");
    const std::int64_t most = options_.window + kTelemetryDelay;
    check<CheckpointError>(static_cast<std::int64_t>(loaded.losses_.size()) <= most && std::isfinite(loaded.largest_) &&
                               std::ranges::all_of(loaded.losses_, [](double x) { return std::isfinite(x); }),
                           "spike guard: the checkpoint holds {} losses, wanted at most {}, all finite",
                           loaded.losses_.size(), most);
  }
  *this = std::move(loaded);
}

}  // namespace binade::amp
