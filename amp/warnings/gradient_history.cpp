#include "binade/amp/warnings/gradient_history.h"

#include <cmath>

#include "binade/amp/suggestions.h"
#include "binade/amp/warnings/trend.h"

namespace binade::amp {
namespace {

constexpr std::size_t kHistory = 128, kNewest = 8;  // number of earlier norms; number of newest ones
constexpr double kRecovered = 1;                    // binades above the median up to which norms end a report

/// The distance above the median from which on a norm is reported: `binades` or `deviations` robust deviations,
/// whichever is more.
struct Bound {
  double binades, deviations;
  double of(double deviation) const { return std::max(binades, deviations * deviation); }
};
constexpr Bound kAllNewest{3, 4}, kNewestAlone{7, 12};

}  // namespace

std::optional<GradientHistory::Growth> GradientHistory::observe(double norm, double clip_norm) {
  if (!(norm > 0 && std::isfinite(norm))) return std::nullopt;
  norms_.push_back(std::log2(norm));
  if (norms_.size() > kHistory + kNewest) norms_.erase(norms_.begin());
  if (norms_.size() < kHistory + kNewest) return std::nullopt;

  const auto [middle, deviation] = robust_statistics({norms_.begin(), norms_.begin() + kHistory});
  const auto [lowest, highest] = std::minmax_element(norms_.begin() + kHistory, norms_.end());
  if (reported_) {
    reported_ = *highest > middle + kRecovered;
    return std::nullopt;
  }
  const double newest = norms_.back() - middle;
  const bool lasts = *lowest - middle > kAllNewest.of(deviation);
  reported_ = norm > clip_norm && (lasts || newest > kNewestAlone.of(deviation));
  if (!reported_) return std::nullopt;
  return Growth{.binades = newest, .median = std::exp2(middle), .lasts = lasts};
}

void GradientHistory::find(const CommittedStep& step, std::vector<Warning>& found) {
  const std::optional<GradientHistory::Growth> growth = observe(step.grad_norm, step.clip_norm);
  if (!growth) return;
  Warning warning{.kind = WarningKind::kGradients, .step = step.step, .direction = "backward", .dtype = "f32"};
  warning.what = fmt::format("has gradients of norm {:.3g}, {:.0f} times the median of the 128 steps before{}",
                             step.grad_norm, std::exp2(growth->binades),
                             growth->lasts ? ", for the 8th time in a row" : "");
  warning.advice = step.clip_norm > 0
                       ? std::string("lower the learning rate; clipping bounds the update meanwhile")
                       : fmt::format("clip by norm ({}), or lower the learning rate", suggest_clipping());
  found.push_back(std::move(warning));
}

StateDict GradientHistory::state() const {
  StateDict state;
  state.put("norms", norms_);
  state.put("told", static_cast<std::int64_t>(reported_));
  return state;
}

void GradientHistory::load_state(const StateDict& state) {
  GradientHistory loaded;
  if (!state.empty()) {
    loaded.norms_ = state.numbers("norms");
    loaded.reported_ = state.integer("told") != 0;
    check<CheckpointError>(loaded.norms_.size() <= kHistory + kNewest &&
                               std::ranges::all_of(loaded.norms_, [](double x) { return std::isfinite(x); }),
                           "gradient history: wanted at most {} finite norms, got {}", kHistory + kNewest,
                           loaded.norms_.size());
  }
  *this = std::move(loaded);
}

}  // namespace binade::amp
