#include "binade/amp/warnings/gradient_history.h"

#include <cmath>
#include <utility>

#include "binade/amp/suggestions.h"
#include "binade/amp/warnings/trend.h"
#include "binade/core/state_counts.h"

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

std::optional<GradientHistory::Growth> GradientHistory::observe(double norm) {
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
  reported_ = lasts || newest > kNewestAlone.of(deviation);
  if (!reported_) return std::nullopt;
  return Growth{.binades = newest, .median = std::exp2(middle), .lasts = lasts};
}

void GradientHistory::find(const CommittedStep& step, std::vector<Warning>& found) {
  if (const std::optional<Growth> growth = observe(step.grad_norm)) held_ = Held{step.step, step.grad_norm, *growth};
  if (step.unusual_data || !held_) return;
  const Held told = *std::exchange(held_, std::nullopt);
  Warning warning{.kind = WarningKind::kGradients, .step = told.step, .direction = "backward", .dtype = "f32"};
  warning.what = fmt::format("has gradients of norm {:.3g}, {:.0f} times the median of the 128 steps before{}",
                             told.norm, std::exp2(told.growth.binades),
                             told.growth.lasts ? ", for the 8th time in a row" : "");
  warning.advice = fmt::format("clip by norm ({}), or lower the learning rate", suggest_clipping());
  found.push_back(std::move(warning));
}

StateDict GradientHistory::state() const {
  StateDict state;
  state.put("norms", norms_);
  state.put("told", static_cast<std::int64_t>(reported_));
  if (held_) {
    state.put("held/step", held_->step);
    state.put("held/numbers", StateDict::Numbers{held_->norm, held_->growth.binades, held_->growth.median});
    state.put("held/lasts", static_cast<std::int64_t>(held_->growth.lasts));
  }
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
    if (state.contains("held/step")) {
      const StateDict::Numbers& numbers = state.numbers("held/numbers");
      check<CheckpointError>(numbers.size() == 3, "gradient history: wanted 3 numbers of a held warning, got {}",
                             numbers.size());
      loaded.held_ = Held{read_count(state, "held/step"),
                          numbers[0],
                          {.binades = numbers[1], .median = numbers[2], .lasts = state.integer("held/lasts") != 0}};
    }
  }
  *this = std::move(loaded);
}

}  // namespace binade::amp
