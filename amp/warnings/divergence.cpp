#include "binade/amp/warnings/divergence.h"

#include <cmath>

#include "binade/amp/suggestions.h"
#include "binade/amp/warnings/trend.h"

namespace binade::amp {
namespace {

constexpr std::size_t kLatest = 5, kHistory = 33;
constexpr double kDivergedRatio = 8, kRecoveredRatio = 2;  // loss divided by the first loss
constexpr double kMinScatterRatio = 8;                     // log(loss / first) divided by the scatter of log(loss)

}  // namespace

std::optional<Divergence::Growth> Divergence::observe(double loss) {
  if (!std::isfinite(loss) || had_nonpositive_loss_) return std::nullopt;
  if (loss <= 0) {
    *this = Divergence();
    had_nonpositive_loss_ = true;
    return std::nullopt;
  }
  losses_.push_back(loss);
  const bool full = losses_.size() > kHistory;
  if (losses_.size() > 1 + kHistory) losses_.erase(losses_.begin() + 1);
  if (losses_.size() < 1 + kLatest) return std::nullopt;
  const double first = losses_.front();
  const std::span<const double> latest = std::span(losses_).last(kLatest);
  const auto [lowest, highest] = std::ranges::minmax(latest);
  if (reported_) {
    reported_ = highest >= kRecoveredRatio * first;
    return std::nullopt;
  }
  if (!(lowest > kDivergedRatio * first)) return std::nullopt;
  std::vector<double> logs, differences;
  for (const double x : latest) logs.push_back(std::log(x / first));
  for (std::size_t i = full ? 2 : 1; i < losses_.size(); ++i)
    differences.push_back(std::abs(std::log(losses_[i] / losses_[i - 1])));
  const double middle = median(logs);
  reported_ = middle > kMinScatterRatio * median(differences);
  return reported_ ? std::optional(Growth{.first = first, .ratio = std::exp(middle)}) : std::nullopt;
}

bool Divergence::is_high() const { return !losses_.empty() && losses_.back() > kDivergedRatio * losses_.front(); }

void Divergence::find(const CommittedStep& step, std::vector<Warning>& found) {
  const std::optional<Divergence::Growth> growth = observe(step.loss);
  if (!growth) return;
  Warning warning{.kind = WarningKind::kDivergence, .step = step.step, .direction = "forward", .dtype = "f32"};
  warning.what = fmt::format(
      "diverges: a loss of {:.4g}, {:.0f} times the {:.4g} that the run began with, and no lower for 5 steps",
      step.loss, growth->ratio, growth->first);
  warning.advice = step.clip_norm > 0 ? fmt::format("lower the learning rate, or warm it up ({})", suggest_warmup())
                                      : fmt::format("lower the learning rate, warm it up ({}), or clip by norm ({})",
                                                    suggest_warmup(), suggest_clipping());
  found.push_back(std::move(warning));
}

StateDict Divergence::state() const {
  StateDict state;
  state.put("losses", losses_);
  state.put("told", static_cast<std::int64_t>(reported_));
  state.put("signed", static_cast<std::int64_t>(had_nonpositive_loss_));
  return state;
}

void Divergence::load_state(const StateDict& state) {
  Divergence loaded;
  if (!state.empty()) {
    loaded.losses_ = state.numbers("losses");
    loaded.reported_ = state.integer("told") != 0;
    loaded.had_nonpositive_loss_ = state.integer("signed") != 0;
    check<CheckpointError>(loaded.losses_.size() <= 1 + kHistory &&
                               std::ranges::all_of(loaded.losses_, [](double x) { return std::isfinite(x) && x > 0; }),
                           "divergence: wanted at most {} finite losses above 0, got {}", 1 + kHistory,
                           loaded.losses_.size());
  }
  *this = std::move(loaded);
}

}  // namespace binade::amp
