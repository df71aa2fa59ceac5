#include "binade/amp/warnings/signs.h"

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
std::string target_of(const Sign& sign) {
  return sign.module.empty() ? sign.op : fmt::format("{}/{}", sign.module, sign.op);
}

Sign sign_of(SignKind kind, const HeadroomReading& reading, const Forecast::Alarm& alarm, std::int64_t step) {
  Sign sign{.kind = kind, .step = step};
  sign.module = reading.module;
  sign.op = reading.op;
  sign.direction = "forward";
  sign.dtype = name_of(reading.dtype);
  sign.steps_left = alarm.steps;
  sign.confidence = alarm.confidence;
  return sign;
}

std::string overflow_advice(const Sign& sign, DType dtype, bool scale_can_fall) {
  if (sign.direction == "backward" && scale_can_fall)
    return "lower the loss scale, or let it adjust itself (--loss-scale dynamic)";
  if (sign.direction == "backward") return "gradients grow at any loss scale: clip by norm, or lower the learning rate";
  if (dtype == DType::f32) return "lower the learning rate, or put a norm before it";
  return fmt::format("compute it in f32 (--override '{}=fp32'), or put a norm before it", target_of(sign));
}

/// Relative entropy at which an attention looks at single keys.
constexpr double kCollapsed = 0.01;

}  // namespace

// A share of 0.08 is still three binades above kCollapsed: attention that is sharper is no news before it sharpens on.
Signs::Signs() : collapse_({.worth = 3, .recovered = 1}) {}

std::vector<Sign> Signs::after_commit(const Committed& step) {
  std::vector<Sign> signs;
  judge_loss(step, signs);
  judge_gradients(step, signs);
  if (overflow_.due(step.step)) {
    foresee_overflow(step, signs);
    foresee_poles(step, signs);
    foresee_collapse(step, signs);
  }
  if (underflow_.due(step.step))
    if (auto sign = underflow_.look(step.step, step.loss_scale, step.seen, step.raised)) signs.push_back(*sign);
  if (stagnation_.due(step.step))
    if (auto sign = stagnation_.after_update(step.step, step.optimizer, step.input, step.stochastic))
      signs.push_back(*sign);
  return signs;
}

void Signs::foresee_overflow(const Committed& step, std::vector<Sign>& signs) {
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
    Sign sign = sign_of(SignKind::kOverflow, reading, alarm, step.step);
    if (alarm.place >= forward.size()) sign.direction = "backward";
    sign.what = fmt::format(
        "will leave the range of {} in about {:.0f} steps: {:.1f} binades are left, {:.3f} go each step",
        name_of(reading.dtype), alarm.steps, alarm.binades, alarm.per_step);
    sign.advice = overflow_advice(sign, reading.dtype, step.least_scale > 1);
    if (step.prevents && reading.dtype != DType::f32 && sign.direction == "forward") plan_promotion(sign);
    signs.push_back(std::move(sign));
  }
}

void Signs::foresee_poles(const Committed& step, std::vector<Sign>& signs) {
  std::vector<HeadroomReading> readings;
  for (const Telemetry::Slot& slot : step.seen.slots(Direction::kForward))
    if (slot.pole) readings.push_back({slot.module, slot.op, slot.pole->dtype, slot.pole->binades});
  for (const Forecast::Alarm& alarm : poles_.observe(step.step, readings)) {
    const HeadroomReading& reading = readings[alarm.place];
    Sign sign = sign_of(SignKind::kPole, reading, alarm, step.step);
    sign.what = fmt::format(
        "will be at its pole in about {:.0f} steps: {:.1f} binades are left until {} overflows there, {:.3f} go each "
        "step",
        alarm.steps, alarm.binades, name_of(reading.dtype), alarm.per_step);
    sign.advice = "add an eps to its operand, or clamp it";
    if (step.prevents && reading.dtype == DType::f16) plan_promotion(sign);
    signs.push_back(std::move(sign));
  }
}

void Signs::foresee_collapse(const Committed& step, std::vector<Sign>& signs) {
  std::vector<HeadroomReading> readings;
  for (const Telemetry::Slot& slot : step.seen.slots(Direction::kForward))
    if (slot.entropy) readings.push_back({slot.module, slot.op, DType::f32, std::log2(*slot.entropy / kCollapsed)});
  for (const Forecast::Alarm& alarm : collapse_.observe(step.step, readings)) {
    Sign sign = sign_of(SignKind::kCollapse, readings[alarm.place], alarm, step.step);
    sign.what = fmt::format(
        "will look at single keys alone in about {:.0f} steps: its entropy is {:.3f} of what all keys alike would give",
        alarm.steps, kCollapsed * std::exp2(alarm.binades));
    sign.advice = "its logits grow: lower the learning rate, or put a norm on queries and keys";
    signs.push_back(std::move(sign));
  }
}

void Signs::judge_loss(const Committed& step, std::vector<Sign>& signs) {
  const std::optional<Divergence::Growth> growth = divergence_.observe(step.loss);
  if (!growth) return;
  Sign sign{.kind = SignKind::kDivergence, .step = step.step, .direction = "forward", .dtype = "f32"};
  sign.what = fmt::format(
      "diverges: a loss of {:.4g}, {:.0f} times the {:.4g} that the run began with, and no lower for 5 steps",
      step.loss, growth->ratio, growth->first);
  sign.advice = "lower the learning rate, warm it up (--warmup), or clip by norm (--clip)";
  signs.push_back(std::move(sign));
}

void Signs::judge_gradients(const Committed& step, std::vector<Sign>& signs) {
  const std::optional<GradientHistory::Growth> growth = gradients_.observe(step.grad_norm);
  if (!growth) return;
  Sign sign{.kind = SignKind::kGradients, .step = step.step, .direction = "backward", .dtype = "f32"};
  sign.what = fmt::format("has gradients of norm {:.3g}, {:.0f} times the median of the 128 steps before{}",
                          step.grad_norm, std::exp2(growth->binades),
                          growth->lasts ? ", for the 8th time in a row" : "");
  sign.advice = "clip by norm (--clip), or lower the learning rate";
  signs.push_back(std::move(sign));
}

/// The op of this sign is to be computed in f32 in time.
void Signs::plan_promotion(Sign& sign) {
  planned_.push_back({sign.step + kTelemetryDelay, target_of(sign)});
  sign.remedy = fmt::format("it is computed in f32 from step {} on", planned_.back().step);
}

std::vector<std::string> Signs::take_due(std::int64_t step) {
  std::vector<std::string> due;
  for (const Promotion& planned : planned_)
    if (planned.step <= step) due.push_back(planned.target);
  std::erase_if(planned_, [&](const Promotion& planned) { return planned.step <= step; });
  return due;
}

std::optional<double> Signs::update_rms(std::int64_t step) const {
  return stagnation_.due(step) && step > 0 ? std::optional(stagnation_.update_rms()) : std::nullopt;
}

std::optional<double> Signs::attention_logits(std::int64_t step, const Telemetry& seen) const {
  if (!overflow_.due(step)) return std::nullopt;
  std::uint32_t largest = 0;
  std::string_view product;  // of the module that was seen last: the first is query times key
  for (const Telemetry::Slot& slot : seen.slots(Direction::kForward)) {
    if (slot.op == nullptr || std::string_view(slot.op) != "matmul" || slot.module == product) continue;
    if (slot.module.find("attention") == slot.module.npos) continue;
    product = slot.module;
    largest = std::max({largest, slot.seen.low, slot.seen.wide});
  }
  const double value = optim::magnitude_of(largest);
  return largest > 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> Signs::attention_entropy(std::int64_t step, const Telemetry& seen) const {
  if (!collapse_.due(step)) return std::nullopt;
  std::optional<double> least;
  for (const Telemetry::Slot& slot : seen.slots(Direction::kForward))
    if (slot.entropy) least = std::min(*slot.entropy, least.value_or(1));
  return least;
}

StateDict Signs::state() const {
  StateDict state;
  state.merge("forecast", overflow_.state());
  state.merge("poles", poles_.state());
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

void Signs::load_state(const StateDict& state) {
  Signs loaded;
  loaded.overflow_.load_state(state.section("forecast"));
  loaded.poles_.load_state(state.section("poles"));
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
