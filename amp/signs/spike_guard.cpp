#include "amp/signs/spike_guard.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "amp/signs/trend.h"
#include "core/error.h"

namespace binade::amp {
namespace {

constexpr double kDeviationOfMedian = 1.4826;  // median absolute deviation -> standard deviation, for normal noise

}  // namespace

SpikeGuard::SpikeGuard(const Options& options) : options_(options) {
  check<ArgumentError>(options.least >= 1 && options.window >= options.least && options.spread > 0 &&
                           options.relative >= 0,
                       "spike guard: wanted 1 <= least <= window, spread > 0 and relative >= 0, got {}, {}, {} and {}",
                       options.least, options.window, options.spread, options.relative);
}

double SpikeGuard::bound() const {
  if (losses_.size() < static_cast<std::size_t>(options_.least)) return std::numeric_limits<double>::infinity();
  std::vector<double> values = losses_;
  const double middle = median(values);
  for (double& x : values) x = std::abs(x - middle);
  const double deviation = kDeviationOfMedian * median(values);
  return middle + std::max(options_.spread * deviation, options_.relative * std::abs(middle));
}

bool SpikeGuard::absurd(double loss) const { return std::isfinite(loss) && !(loss <= bound()); }

void SpikeGuard::accepted(double loss) {
  if (!std::isfinite(loss)) return;
  losses_.push_back(loss);
  if (losses_.size() > static_cast<std::size_t>(options_.window)) losses_.erase(losses_.begin());
}

StateDict SpikeGuard::state() const {
  StateDict state;
  state.put("losses", losses_);
  return state;
}

void SpikeGuard::load_state(const StateDict& state) {
  std::vector<double> losses = state.empty() ? std::vector<double>{} : state.numbers("losses");
  check<CheckpointError>(losses.size() <= static_cast<std::size_t>(options_.window) &&
                             std::ranges::all_of(losses, [](double x) { return std::isfinite(x); }),
                         "spike guard: the checkpoint holds {} losses, wanted at most {}, all finite", losses.size(),
                         options_.window);
  losses_ = std::move(losses);
}

}  // namespace binade::amp
