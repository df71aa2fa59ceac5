#include "binade/amp/warnings/limits.h"

#include <cmath>
#include <optional>
#include <utility>

#include "binade/core/error.h"

namespace binade::amp {
namespace {

/// Whose limit a slot is measured by: of its 16-bit values, where it has some.
DType limiting(const Telemetry::Slot& slot) {
  return std::isfinite(headroom_of({.low = slot.seen.low}, slot.low)) ? slot.low : DType::f32;
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

void OverflowAhead::find(const CommittedStep& step, std::vector<Warning>& found) {
  if (!due(step.step)) return;
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
  for (const Forecast::Alarm& alarm : observe(step.step, readings)) {
    const HeadroomReading& reading = readings[alarm.place];
    Warning warning = warning_of(WarningKind::kOverflow, reading, alarm, step.step);
    if (alarm.place >= forward.size()) warning.direction = "backward";
    warning.what = fmt::format(
        "will leave the range of {} in about {:.0f} steps: {:.1f} binades are left, {:.3f} go each step",
        name_of(reading.dtype), alarm.steps, alarm.binades, alarm.per_step);
    warning.advice = overflow_advice(warning, reading.dtype, step.least_scale > 1);
    warning.promotes = step.prevents && reading.dtype != DType::f32 && warning.direction == "forward";
    found.push_back(std::move(warning));
  }
}

void SingularityAhead::find(const CommittedStep& step, std::vector<Warning>& found) {
  if (!due(step.step)) return;
  std::vector<HeadroomReading> readings;
  for (const Telemetry::Slot& slot : step.seen.slots(Direction::kForward))
    if (slot.singularity)
      readings.push_back({slot.module, slot.op, slot.singularity->dtype, slot.singularity->binades});
  for (const Forecast::Alarm& alarm : observe(step.step, readings)) {
    const HeadroomReading& reading = readings[alarm.place];
    Warning warning = warning_of(WarningKind::kSingularity, reading, alarm, step.step);
    warning.what = fmt::format(
        "will be at its singularity in about {:.0f} steps: {:.1f} binades are left until {} overflows there, {:.3f} go "
        "each step",
        alarm.steps, alarm.binades, name_of(reading.dtype), alarm.per_step);
    warning.advice = "add an eps to its operand, or clamp it";
    warning.promotes = step.prevents && reading.dtype == DType::f16;
    found.push_back(std::move(warning));
  }
}

void CollapseAhead::find(const CommittedStep& step, std::vector<Warning>& found) {
  if (!due(step.step)) return;
  std::vector<HeadroomReading> readings;
  for (const Telemetry::Slot& slot : step.seen.slots(Direction::kForward))
    if (slot.entropy) readings.push_back({slot.module, slot.op, DType::f32, std::log2(*slot.entropy / kCollapsed)});
  for (const Forecast::Alarm& alarm : observe(step.step, readings)) {
    Warning warning = warning_of(WarningKind::kCollapse, readings[alarm.place], alarm, step.step);
    warning.what = fmt::format(
        "will look at single keys alone in about {:.0f} steps: its entropy is {:.3f} of what all keys alike would give",
        alarm.steps, kCollapsed * std::exp2(alarm.binades));
    warning.advice = "its logits grow: lower the learning rate, or put a norm on queries and keys";
    found.push_back(std::move(warning));
  }
}

}  // namespace binade::amp
