#include "binade/amp/warnings/limits.h"

#include <cmath>
#include <optional>
#include <utility>

#include "binade/amp/suggestions.h"
#include "binade/core/error.h"

namespace binade::amp {
namespace {

/// Returns the dtype whose range limits an op's results: the 16-bit dtype if the op stored 16-bit values.
DType limiting_dtype(const Telemetry::OpRecord& record) {
  return std::isfinite(headroom_of({.low = record.amax.low}, record.half_dtype)) ? record.half_dtype : DType::f32;
}

/// Updates `forecast` and adds a warning with direction "forward" for each alarm. `describe(warning, reading, alarm)`
/// completes the warning.
template <class F>
void add_alarms(Forecast& forecast, WarningKind kind, std::int64_t step, std::span<const HeadroomReading> readings,
                std::vector<Warning>& found, F&& describe) {
  for (const Forecast::Alarm& alarm : forecast.observe(step, readings)) {
    const HeadroomReading& reading = readings[alarm.reading];
    Warning& warning = found.emplace_back(Warning{.kind = kind, .step = step});
    warning.module = reading.module;
    warning.op = reading.op;
    warning.direction = "forward";
    warning.dtype = name_of(reading.dtype);
    warning.steps_left = alarm.steps;
    warning.confidence = alarm.confidence;
    describe(warning, reading, alarm);
  }
}

std::string overflow_advice(const Warning& warning, DType dtype, bool scale_can_fall) {
  if (warning.direction == "backward" && scale_can_fall)
    return fmt::format("lower the loss scale, or let it adjust itself ({})", suggest_dynamic_loss_scale());
  if (warning.direction == "backward")
    return fmt::format("gradients grow at any loss scale: clip by norm ({}), or lower the learning rate",
                       suggest_clipping());
  if (dtype == DType::f32) return "lower the learning rate, or put a norm before it";
  return fmt::format("compute it in f32 ({}), or put a norm before it", suggest_dtype(target_of(warning), DType::f32));
}

/// The relative entropy at which attention counts as collapsed to single keys.
constexpr double kCollapsed = 0.01;

}  // namespace

void OverflowAhead::find(const CommittedStep& step, std::vector<Warning>& found) {
  if (!due(step.step)) return;
  std::vector<HeadroomReading> readings;
  const auto forward = step.telemetry.records(Direction::kForward);
  const auto backward = step.telemetry.records(Direction::kBackward);
  readings.reserve(forward.size() + backward.size());
  // The headroom of gradients is computed for the lowest loss scale, because the scaler itself prevents overflows that
  // a lower scale avoids.
  const double gradient_margin = std::log2(step.loss_scale / step.min_scale);
  for (const auto& [records, margin] : {std::pair(forward, 0.0), std::pair(backward, gradient_margin)})
    for (const Telemetry::OpRecord& record : records)
      readings.push_back({.module = record.module,
                          .op = record.op != nullptr ? record.op : "",
                          .dtype = limiting_dtype(record),
                          .binades = headroom_of(record.amax, record.half_dtype) + margin});
  add_alarms(
      *this, WarningKind::kOverflow, step.step, readings, found,
      [&](Warning& warning, const HeadroomReading& reading, const Forecast::Alarm& alarm) {
        if (alarm.reading >= forward.size()) warning.direction = "backward";
        warning.what = fmt::format(
            "will leave the range of {} in about {:.0f} steps: {:.1f} binades are left, and each step takes {:.3f}",
            warning.dtype, alarm.steps, alarm.binades, alarm.per_step);
        warning.advice = overflow_advice(warning, reading.dtype, step.min_scale > 1);
        warning.promotes = step.promotes && reading.dtype != DType::f32 && warning.direction == "forward";
      });
}

void SingularityAhead::find(const CommittedStep& step, std::vector<Warning>& found) {
  if (!due(step.step)) return;
  std::vector<HeadroomReading> readings;
  for (const Telemetry::OpRecord& record : step.telemetry.records(Direction::kForward))
    if (record.singularity)
      readings.push_back({record.module, record.op, record.singularity->dtype, record.singularity->binades});
  add_alarms(
      *this, WarningKind::kSingularity, step.step, readings, found,
      [&](Warning& warning, const HeadroomReading& reading, const Forecast::Alarm& alarm) {
        warning.what = fmt::format(
            "will be at a singularity in about {:.0f} steps: {:.1f} binades are left until {} overflows there, and "
            "each step takes {:.3f}",
            alarm.steps, alarm.binades, warning.dtype, alarm.per_step);
        warning.advice = "add an eps to its operand, or clamp it";
        warning.promotes = step.promotes && reading.dtype == DType::f16;
      });
}

void CollapseAhead::find(const CommittedStep& step, std::vector<Warning>& found) {
  if (!due(step.step)) return;
  std::vector<HeadroomReading> readings;
  for (const Telemetry::OpRecord& record : step.telemetry.records(Direction::kForward))
    if (record.entropy)
      readings.push_back({record.module, record.op, DType::f32, std::log2(*record.entropy / kCollapsed)});
  add_alarms(*this, WarningKind::kCollapse, step.step, readings, found,
             [&](Warning& warning, const HeadroomReading&, const Forecast::Alarm& alarm) {
               const double entropy = kCollapsed * std::exp2(alarm.binades);
               warning.what =
                   alarm.steps > 0
                       ? fmt::format(
                             "will collapse to single keys in about {:.0f} steps: its entropy is {:.3f} of "
                             "that of equal weights",
                             alarm.steps, entropy)
                       : fmt::format("has collapsed to single keys: its entropy is at most {} of that of equal weights",
                                     entropy);
               warning.advice = "its logits grow: lower the learning rate, or put a norm on queries and keys";
             });
}

}  // namespace binade::amp
