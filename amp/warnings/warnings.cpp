#include "binade/amp/warnings/warnings.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/warnings/names.h"
#include "binade/core/error.h"
#include "binade/core/state_counts.h"
#include "binade/optim/gradient_scan.h"

namespace binade::amp {
namespace {

/// Whose limit a slot is measured by: of its 16-bit values, where it has some.
DType limiting(const Telemetry::Slot& slot) {
  return std::isfinite(headroom_of({.low = slot.seen.low}, slot.low)) ? slot.low : DType::f32;
}

/// As an override names that op.
std::string target_of(const Warning& warning) {
  return warning.module.empty() ? warning.op : fmt::format("{}/{}", warning.module, warning.op);
}

Warning warning_of(WarningKind kind, const HeadroomReading& reading, const Forecast::Alarm& alarm, std::int64_t step) {
  Warning warning{.kind = kind, .step = step};
  warning.module = reading.module;
  warning.op = reading.op;
  warning.direction = "forward";
  warning.dtype = name_of(reading.dtype);
  warning.steps_left = alarm.steps;
  warning.confidence = alarm.confidence;
  return warning;
}

std::string overflow_advice(const Warning& warning, DType dtype, bool scale_can_fall) {
  if (warning.direction == "backward" && scale_can_fall)
    return "lower the loss scale, or let it adjust itself (--loss-scale dynamic)";
  if (warning.direction == "backward")
    return "gradients grow at any loss scale: clip by norm, or lower the learning rate";
  if (dtype == DType::f32) return "lower the learning rate, or put a norm before it";
  return fmt::format("compute it in f32 (--override '{}=fp32'), or put a norm before it", target_of(warning));
}

/// Relative entropy at which an attention looks at single keys.
constexpr double kCollapsed = 0.01;

}  // namespace

// A share of 0.08 is still three binades above kCollapsed: attention that is sharper is no news before it sharpens on.
Warnings::Warnings() : collapse_({.worth = 3, .recovered = 1}) {}

std::vector<Warning> Warnings::after_commit(const Committed& step) {
  std::vector<Warning> warnings;
  judge_loss(step, warnings);
  judge_gradients(step, warnings);
  if (overflow_.due(step.step)) {
    foresee_overflow(step, warnings);
    foresee_poles(step, warnings);
    foresee_collapse(step, warnings);
  }
  if (underflow_.due(step.step))
    if (auto warning = underflow_.look(step.step, step.loss_scale, step.seen, step.raised))
      warnings.push_back(*warning);
  if (stagnation_.due(step.step))
    if (auto warning = stagnation_.after_update(step.step, step.optimizer, step.input, step.stochastic))
      warnings.push_back(*warning);
  return warnings;
}

void Warnings::foresee_overflow(const Committed& step, std::vector<Warning>& warnings) {
  std::vector<HeadroomReading> readings;
  const auto forward = step.seen.slots(Direction::kForward), backward = step.seen.slots(Direction::kBackward);
  readings.reserve(forward.size() + backward.size());
  // Gradients are judged without the loss scale, by what would be left at the lowest one: the scaler sees to the rest.
  const double room = std::log2(step.loss_scale / step.least_scale);
  for (const auto& [slots, extra] : {std::pair(forward, 0.0), std::pair(backward, room)})
    for (const Telemetry::Slot& slot : slots)
      readings.push_back({.module = slot.module,
                          .op = slot.op != nullptr ? slot.op : "",
                          .dtype = limiting(slot),
                          .binades = headroom_of(slot.seen, slot.low) + extra});
  for (const Forecast::Alarm& alarm : overflow_.observe(step.step, readings)) {
    const HeadroomReading& reading = readings[alarm.place];
    Warning warning = warning_of(WarningKind::kOverflow, reading, alarm, step.step);
    if (alarm.place >= forward.size()) warning.direction = "backward";
    warning.what = fmt::format(
        "will leave the range of {} in about {:.0f} steps: {:.1f} binades are left, {:.3f} go each step",
        name_of(reading.dtype), alarm.steps, alarm.binades, alarm.per_step);
    warning.advice = overflow_advice(warning, reading.dtype, step.least_scale > 1);
    if (step.prevents && reading.dtype != DType::f32 && warning.direction == "forward") plan_promotion(warning);
    warnings.push_back(std::move(warning));
  }
}

void Warnings::foresee_poles(const Committed& step, std::vector<Warning>& warnings) {
  std::vector<HeadroomReading> readings;
  for (const Telemetry::Slot& slot : step.seen.slots(Direction::kForward))
    if (slot.singularity)
      readings.push_back({slot.module, slot.op, slot.singularity->dtype, slot.singularity->binades});
  for (const Forecast::Alarm& alarm : singularities_.observe(step.step, readings)) {
    const HeadroomReading& reading = readings[alarm.place];
    Warning warning = warning_of(WarningKind::kSingularity, reading, alarm, step.step);
    warning.what = fmt::format(
        "will be at its singularity in about {:.0f} steps: {:.1f} binades are left until {} overflows there, {:.3f} go "
        "each "
        "step",
        alarm.steps, alarm.binades, name_of(reading.dtype), alarm.per_step);
    warning.advice = "add an eps to its operand, or clamp it";
    if (step.prevents && reading.dtype == DType::f16) plan_promotion(warning);
    warnings.push_back(std::move(warning));
  }
}

void Warnings::foresee_collapse(const Committed& step, std::vector<Warning>& warnings) {
  std::vector<HeadroomReading> readings;
  for (const Telemetry::Slot& slot : step.seen.slots(Direction::kForward))
    if (slot.entropy) readings.push_back({slot.module, slot.op, DType::f32, std::log2(*slot.entropy / kCollapsed)});
  for (const Forecast::Alarm& alarm : collapse_.observe(step.step, readings)) {
    Warning warning = warning_of(WarningKind::kCollapse, readings[alarm.place], alarm, step.step);
    warning.what = fmt::format(
        "will look at single keys alone in about {:.0f} steps: its entropy is {:.3f} of what all keys alike would give",
        alarm.steps, kCollapsed * std::exp2(alarm.binades));
    warning.advice = "its logits grow: lower the learning rate, or put a norm on queries and keys";
    warnings.push_back(std::move(warning));
  }
}

void Warnings::judge_loss(const Committed& step, std::vector<Warning>& warnings) {
  const std::optional<Divergence::Growth> growth = divergence_.observe(step.loss);
  if (!growth) return;
  Warning warning{.kind = WarningKind::kDivergence, .step = step.step, .direction = "forward", .dtype = "f32"};
  warning.what = fmt::format(
      "diverges: a loss of {:.4g}, {:.0f} times the {:.4g} that the run began with, and no lower for 5 steps",
      step.loss, growth->ratio, growth->first);
  warning.advice = "lower the learning rate, warm it up (--warmup), or clip by norm (--clip)";
  warnings.push_back(std::move(warning));
}

void Warnings::judge_gradients(const Committed& step, std::vector<Warning>& warnings) {
  const std::optional<GradientHistory::Growth> growth = gradients_.observe(step.grad_norm);
  if (!growth) return;
  Warning warning{.kind = WarningKind::kGradients, .step = step.step, .direction = "backward", .dtype = "f32"};
  warning.what = fmt::format("has gradients of norm {:.3g}, {:.0f} times the median of the 128 steps before{}",
                             step.grad_norm, std::exp2(growth->binades),
                             growth->lasts ? ", for the 8th time in a row" : "");
  warning.advice = "clip by norm (--clip), or lower the learning rate";
  warnings.push_back(std::move(warning));
}

/// The op of this warning is to be computed in f32 in time.
void Warnings::plan_promotion(Warning& warning) {
  planned_.push_back({warning.step + kTelemetryDelay, target_of(warning)});
  warning.remedy = fmt::format("it is computed in f32 from step {} on", planned_.back().step);
}

std::vector<std::string> Warnings::take_due(std::int64_t step) {
  std::vector<std::string> due;
  for (const Promotion& planned : planned_)
    if (planned.step <= step) due.push_back(planned.target);
  std::erase_if(planned_, [&](const Promotion& planned) { return planned.step <= step; });
  return due;
}

std::optional<double> Warnings::update_rms(std::int64_t step) const {
  return stagnation_.due(step) && step > 0 ? std::optional(stagnation_.update_rms()) : std::nullopt;
}

std::optional<double> Warnings::attention_logits(std::int64_t step, const Telemetry& seen) const {
  if (!overflow_.due(step)) return std::nullopt;
  std::uint32_t largest = 0;
  for (const Telemetry::Slot& slot : seen.slots(Direction::kForward))
    if (slot.of_scores) largest = std::max({largest, slot.seen.low, slot.seen.wide});
  const double value = optim::magnitude_of(largest);
  return largest > 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> Warnings::attention_entropy(std::int64_t step, const Telemetry& seen) const {
  if (!collapse_.due(step)) return std::nullopt;
  std::optional<double> least;
  for (const Telemetry::Slot& slot : seen.slots(Direction::kForward))
    if (slot.entropy) least = std::min(*slot.entropy, least.value_or(1));
  return least;
}

StateDict Warnings::state() const {
  StateDict state;
  state.merge("forecast", overflow_.state());
  state.merge("poles", singularities_.state());
  state.merge("collapse", collapse_.state());
  state.merge("divergence", divergence_.state());
  state.merge("gradients", gradients_.state());
  state.merge("underflow", underflow_.state());
  state.merge("stagnation", stagnation_.state());
  std::string targets;
  StateDict::Integers steps;
  for (const Promotion& planned : planned_) {
    add_line(targets, planned.target);
    steps.push_back(planned.step);
  }
  state.put("planned/targets", targets);
  state.put("planned/steps", steps);
  return state;
}

void Warnings::load_state(const StateDict& state) {
  Warnings loaded;
  loaded.overflow_.load_state(state.section("forecast"));
  loaded.singularities_.load_state(state.section("poles"));
  loaded.collapse_.load_state(state.section("collapse"));
  loaded.divergence_.load_state(state.section("divergence"));
  loaded.gradients_.load_state(state.section("gradients"));
  loaded.underflow_.load_state(state.section("underflow"));
  loaded.stagnation_.load_state(state.section("stagnation"));
  if (!state.empty()) {
    const std::vector<std::string> targets = lines_of(state.text("planned/targets"));
    const StateDict::Integers& steps = read_counts(state, "planned/steps");
    check<CheckpointError>(targets.size() == steps.size(), "signs: the checkpoint plans {} promotions in {} steps",
                           targets.size(), steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) loaded.planned_.push_back({steps[i], targets[i]});
  }
  *this = std::move(loaded);
}

}  // namespace binade::amp
