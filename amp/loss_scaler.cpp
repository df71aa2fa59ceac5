#include "binade/amp/loss_scaler.h"

#include <charconv>
#include <cmath>

#include "binade/autograd/gradient_owner.h"
#include "binade/core/state_counts.h"
#include "binade/optim/clip.h"
#include "binade/optim/registration.h"

namespace binade::amp {

LossScaleOptions LossScaleOptions::parse(std::string_view text, double init_scale) {
  if (text == "dynamic") return dynamic(init_scale);
  if (text == "off") return off();
  double scale = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  check<ArgumentError>(error == std::errc{} && end == text.data() + text.size() && std::isfinite(scale) && scale > 0,
                       "loss scale: wanted dynamic, off or a number above 0, got '{}'", text);
  return fixed(scale);
}

std::string explain(ScaleVerdict verdict, const LossScaleOptions& o) {
  switch (verdict) {
    case ScaleVerdict::kLowered: return "";
    case ScaleVerdict::kNotAdjustable:
      return o.mode == LossScaleMode::kOff
                 ? "there is no loss scale to lower"
                 : fmt::format("the loss scale is fixed at {}; use a dynamic one or a lower scale", o.init_scale);
    case ScaleVerdict::kAtFloor: return fmt::format("the loss scale is at its floor of {} already", o.floor);
    case ScaleVerdict::kTooManyInARow:
      return fmt::format("more than {} attempts in a row overflowed", o.aborts_in_a_row);
    case ScaleVerdict::kTooOften:
      return fmt::format("more than {} attempts overflowed within {} commits", o.aborts_per_window, o.window);
  }
  return "";
}

LossScaler::LossScaler(const LossScaleOptions& options) : options_(options) {
  const LossScaleOptions& o = options_;
  check<ArgumentError>(o.init_scale >= 0x1p-24 && o.init_scale <= 0x1p127,
                       "loss scale: wanted an initial scale in [2^-24, 2^127], got {}", o.init_scale);
  check<ArgumentError>(o.growth_factor >= 1 && o.backoff_factor > 0 && o.backoff_factor < 1,
                       "loss scale: wanted growth_factor >= 1 and backoff_factor in (0, 1), got {} and {}",
                       o.growth_factor, o.backoff_factor);
  check<ArgumentError>(
      o.growth_interval > 0 && o.floor > 0 && o.ceiling >= o.floor && o.aborts_in_a_row >= 0 &&
          o.aborts_per_window >= 0 && o.window > 0,
      "loss scale: wanted growth_interval, floor and window above 0 and ceiling >= floor, got {}, {}, {} and {}",
      o.growth_interval, o.floor, o.window, o.ceiling);
  state_.scale = o.mode == LossScaleMode::kOff ? 1 : o.init_scale;
}

void LossScaler::set_scale(double scale) {
  state_.scale = scale;
  state_.waiting.clear();
  state_.least.clear();
}

void LossScaler::note_headroom(double headroom) {
  if (!std::isfinite(headroom)) return;
  state_.waiting.push_back(headroom);
  if (state_.waiting.size() <= static_cast<std::size_t>(kTelemetryDelay)) return;
  const double counts = state_.waiting.front();
  state_.waiting.erase(state_.waiting.begin());
  state_.least.assign(1, state_.least.empty() ? counts : std::min(state_.least.front(), counts));
}

void LossScaler::committed(double headroom) {
  ++state_.commits;
  ++state_.clean;
  note_headroom(headroom);
  // A measured scale is set from the headroom again at the first commit after an overflow, because halving it would
  // leave less than a binade.
  if (std::exchange(state_.in_a_row, 0) > 0 && options_.measure && headroom < kMeasuredHeadroom)
    begin_with(state_.scale, headroom);
  if (!adjustable() || state_.clean < options_.growth_interval) return;
  state_.clean = 0;
  const double grown = state_.scale * options_.growth_factor;
  const bool enough = state_.least.empty() ||
                      state_.least.front() - std::log2(options_.growth_factor) >= kGrownHeadroom;
  if (grown <= options_.ceiling && enough)
    set_scale(grown);
  else
    state_.least.clear();  // otherwise one step with little headroom would keep the scale low for ever
}

void LossScaler::begin_with(double scale, double headroom) {
  if (!adjustable() || !std::isfinite(headroom)) return;
  const double wanted = scale * std::exp2(std::floor(headroom - kMeasuredHeadroom));
  set_scale(std::clamp(wanted, options_.floor, options_.ceiling));
}

ScaleVerdict LossScaler::overflowed() {
  if (!adjustable()) return ScaleVerdict::kNotAdjustable;
  if (!can_lower()) return ScaleVerdict::kAtFloor;
  ++state_.overflows;
  if (++state_.in_a_row > options_.aborts_in_a_row) return ScaleVerdict::kTooManyInARow;
  if (state_.commits >= options_.window) {
    state_.recent.push_back(state_.commits);
    std::erase_if(state_.recent, [&](std::int64_t at) { return at <= state_.commits - options_.window; });
    if (static_cast<std::int64_t>(state_.recent.size()) > options_.aborts_per_window) return ScaleVerdict::kTooOften;
  }
  state_.clean = 0;
  set_scale(std::max(state_.scale * options_.backoff_factor, options_.floor));
  return ScaleVerdict::kLowered;
}

void LossScaler::backward(const Variable& loss) {
  check<NumericError>(std::isfinite(loss.item()),
                      "loss scaler: the loss is {}: the cause is in forward or in the data, not in the loss scale; "
                      "nothing was changed",
                      std::isnan(loss.item()) ? "nan" : "inf");
  check<AutogradError>(backward_at_.value_or(scale()) == scale(),
                       "loss scaler: earlier gradients were computed at loss scale {}, so that gradients at loss scale "
                       "{} cannot be added to them; call step() or zero_grad() before the loss scale changes",
                       backward_at_.value_or(0), scale());
  check<ArgumentError>(!options_.measure,
                       "loss scaler: a measured scale wants a Trainer, which tries a backward before the first step; "
                       "use LossScaleOptions::dynamic() in a loop without one");
  {
    const ScaledBackward scaled(scale());
    binade::backward(loss, scale());
  }
  backward_at_ = scale();
}

StepStats LossScaler::step(std::span<optim::Optimizer* const> optimizers, const StepOptions& options) {
  check<ArgumentError>(!optimizers.empty(), "loss scaler: step() wants at least one optimizer");
  for (std::size_t i = 0; i < optimizers.size(); ++i)
    check<ArgumentError>(std::ranges::count(optimizers.first(i), optimizers[i]) == 0,
                         "loss scaler: step() got optimizer {} twice", i);
  struct ForgetGradients {  // clears the gradients when step() returns or throws
    std::span<optim::Optimizer* const> optimizers;
    ~ForgetGradients() {
      for (optim::Optimizer* optimizer : optimizers) optimizer->zero_grad();
    }
  } const forget{optimizers};
  check<AutogradError>(backward_at_.has_value(),
                       "loss scaler: step() wants a backward() of this scaler since the step before, and there was "
                       "none; optimizers that share a loss go into one call: step({{&a, &b}})");
  const double loss_scale = *std::exchange(backward_at_, std::nullopt);
  optim::check_registration(optimizers);
  std::vector<optim::GradientScan> scans;
  double sum_squares = 0;
  for (optim::Optimizer* optimizer : optimizers)
    sum_squares += scans.emplace_back(optim::scan_gradients(optimizer->parameters())).sum_squares;
  auto bad = std::ranges::find_if(scans, &optim::GradientScan::has_nan);
  if (bad == scans.end()) bad = std::ranges::find_if_not(scans, &optim::GradientScan::finite);
  StepStats stats{.step = optimizers.front()->updates() + 1, .loss_scale = loss_scale};
  stats.lr = options.lr < 0 ? optimizers.front()->lr() : options.lr;
  stats.grad_norm = (bad == scans.end() ? std::sqrt(sum_squares) : bad->norm()) / loss_scale;
  if (bad == scans.end()) {
    update(optimizers, scans, options, stats);
    committed();
    before_nan_.reset();
    stats.committed = true;
  } else {
    lower_for(*bad, stats, optimizers[static_cast<std::size_t>(bad - scans.begin())]->parameters());
  }
  stats.skipped_total = state_.overflows;
  return stats;
}

/// Updates all optimizers. First checks that all results are finite.
void LossScaler::update(std::span<optim::Optimizer* const> optimizers, std::span<const optim::GradientScan> scans,
                        const StepOptions& options, const StepStats& stats) {
  std::vector<optim::StepInput> inputs;
  for (std::size_t i = 0; i < optimizers.size(); ++i) {
    optim::StepInput& input = inputs.emplace_back();
    input.inverse_scale = 1 / stats.loss_scale;
    input.lr = options.lr < 0 ? optimizers[i]->lr() : options.lr;
    if (options.clip_norm > 0) input.clip_factor = optim::clip_factor(stats.grad_norm, options.clip_norm);
    optim::check_update(fmt::format("step {}", stats.step), optimizers[i]->prove_finite(input, scans[i]));
  }
  optim::Optimizer::step_together(optimizers, inputs);
}

void LossScaler::lower_for(const optim::GradientScan& scan, const StepStats& stats,
                           const optim::FlatParameters& parameters) {
  if (scan.has_nan() && !before_nan_) before_nan_ = state_;
  const ScaleVerdict verdict = overflowed();
  if (verdict == ScaleVerdict::kLowered) return;
  if (scan.has_nan()) {
    before_nan_->overflows = state_.overflows;
    state_ = *std::exchange(before_nan_, std::nullopt);
  }
  const auto bad = std::ranges::find_if(scan.words, [](std::uint32_t word) { return word >= 0x7f800000u; });
  throw NumericError(fmt::format("step {}: the gradient of {} holds {} at loss scale {}; nothing was changed; {}",
                                 stats.step,
                                 parameters.slices()[static_cast<std::size_t>(bad - scan.words.begin())].name,
                                 std::abs(optim::magnitude_of(*bad)), stats.loss_scale, explain(verdict, options_)));
}

std::string to_string(const LossScaleOptions& o) {
  switch (o.mode) {
    case LossScaleMode::kDynamic: return "dynamic";
    case LossScaleMode::kStatic: return fmt::format("{}", o.init_scale);
    case LossScaleMode::kOff: break;
  }
  return "off";
}

StateDict LossScaler::state() const {
  StateDict state;
  state.put("mode", to_string(options_));
  state.put("scale", state_.scale);
  state.put("clean", state_.clean);
  state.put("commits", state_.commits);
  state.put("overflows", state_.overflows);
  state.put("in_a_row", state_.in_a_row);
  state.put("recent", state_.recent);
  state.put("waiting", state_.waiting);
  state.put("least", state_.least);
  return state;
}

LossScaler::State LossScaler::decode(const StateDict& saved) const {
  State state{saved.number("scale"),          read_count(saved, "clean"),    read_count(saved, "commits"),
              read_count(saved, "overflows"), read_count(saved, "in_a_row"), read_counts(saved, "recent"),
              saved.numbers("waiting"),       saved.numbers("least")};
  check<CheckpointError>(std::isfinite(state.scale) && state.scale > 0, "loss scale: the checkpoint holds {}",
                         state.scale);
  if (!saved.contains("mode") || saved.text("mode") == to_string(options_))
    return state;  // older checkpoints do not record the mode
  State reset = LossScaler(options_).state_;
  reset.commits = state.commits;
  reset.overflows = state.overflows;
  return reset;
}

}  // namespace binade::amp
