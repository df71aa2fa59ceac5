#include "amp/signs/signs.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "amp/loss_scaler.h"
#include "amp/signs/names.h"
#include "core/error.h"
#include "optim/gradient_scan.h"

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

Sign sign_of(const HeadroomReading& reading, bool backward, const Forecast::Alarm& alarm,
             const Signs::Committed& step) {
  Sign sign{.kind = SignKind::kOverflow, .step = step.step};
  sign.module = reading.module;
  sign.op = reading.op;
  sign.direction = backward ? "backward" : "forward";
  sign.dtype = name_of(reading.dtype);
  sign.steps_left = alarm.steps;
  sign.confidence = alarm.confidence;
  sign.what = fmt::format(
      "will leave the range of {} in about {:.0f} steps: {:.1f} binades are left, {:.3f} go each step",
      name_of(reading.dtype), alarm.steps, alarm.binades, alarm.per_step);
  if (backward && step.least_scale > 1)
    sign.advice = "lower the loss scale, or let it adjust itself (--loss-scale dynamic)";
  else if (backward)
    sign.advice = "gradients grow at any loss scale: clip by norm, or lower the learning rate";
  else if (reading.dtype == DType::f32)
    sign.advice = "lower the learning rate, or put a norm before it";
  else
    sign.advice = fmt::format("compute it in f32 (--override '{}=fp32'), or put a norm before it", target_of(sign));
  return sign;
}

}  // namespace

std::vector<Sign> Signs::after_commit(const Committed& step) {
  std::vector<Sign> signs;
  if (forecast_.due(step.step)) foresee(step, signs);
  if (underflow_.due(step.step))
    if (auto sign = underflow_.look(step.step, step.loss_scale, step.seen, step.raised)) signs.push_back(*sign);
  if (stagnation_.due(step.step))
    if (auto sign = stagnation_.after_update(step.step, step.optimizer, step.input, step.stochastic))
      signs.push_back(*sign);
  return signs;
}

void Signs::foresee(const Committed& step, std::vector<Sign>& signs) {
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
  for (const Forecast::Alarm& alarm : forecast_.observe(step.step, readings)) {
    Sign sign = sign_of(readings[alarm.place], alarm.place >= forward.size(), alarm, step);
    if (step.prevents && readings[alarm.place].dtype != DType::f32 && sign.direction == "forward") {
      planned_.push_back({step.step + kTelemetryDelay, target_of(sign)});
      sign.remedy = fmt::format("it is computed in f32 from step {} on", planned_.back().step);
    }
    signs.push_back(std::move(sign));
  }
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
  if (!forecast_.due(step)) return std::nullopt;
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

StateDict Signs::state() const {
  StateDict state;
  state.merge("forecast", forecast_.state());
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
  loaded.forecast_.load_state(state.section("forecast"));
  loaded.underflow_.load_state(state.section("underflow"));
  loaded.stagnation_.load_state(state.section("stagnation"));
  if (!state.empty()) {
    const std::vector<std::string> targets = lines_of(state.text("planned/targets"));
    const StateDict::Integers& steps = state.integers("planned/steps");
    check<CheckpointError>(targets.size() == steps.size(), "signs: the checkpoint plans {} promotions in {} steps",
                           targets.size(), steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) loaded.planned_.push_back({steps[i], targets[i]});
  }
  *this = std::move(loaded);
}

}  // namespace binade::amp
