#include "binade/amp/warnings/warnings.h"

#include <algorithm>
#include <utility>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/text.h"
#include "binade/core/error.h"
#include "binade/core/state_counts.h"

namespace binade::amp {

std::vector<Warning> Warnings::after_commit(const CommittedStep& step) {
  std::vector<Warning> warnings;
  std::apply([&](auto&... detectors) { (detectors.find(step, warnings), ...); }, detectors_);
  for (Warning& warning : warnings)
    if (warning.promotes) {
      planned_.push_back({warning.step + kTelemetryDelay, target_of(warning)});
      warning.remedy = fmt::format("it is computed in f32 from step {} on", planned_.back().step);
    }
  return warnings;
}

std::vector<std::string> Warnings::take_due_promotions(std::int64_t step) {
  std::vector<std::string> due;
  for (const Promotion& planned : planned_)
    if (planned.step <= step) due.push_back(planned.target);
  std::erase_if(planned_, [&](const Promotion& planned) { return planned.step <= step; });
  return due;
}

std::optional<double> Warnings::update_rms(std::int64_t step) const {
  return stagnation().due(step) && step > 0 ? std::optional(stagnation().update_rms()) : std::nullopt;
}

StateDict Warnings::state() const {
  StateDict state;
  std::apply([&](const auto&... detectors) { (state.merge(detectors.kSection, detectors.state()), ...); }, detectors_);
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
  std::apply([&](auto&... detectors) { (detectors.load_state(state.section(detectors.kSection)), ...); },
             loaded.detectors_);
  if (!state.empty()) {
    const std::vector<std::string> targets = split_lines(state.text("planned/targets"));
    const StateDict::Integers& steps = read_counts(state, "planned/steps");
    check<CheckpointError>(targets.size() == steps.size(), "signs: the checkpoint plans {} promotions in {} steps",
                           targets.size(), steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) loaded.planned_.push_back({steps[i], targets[i]});
  }
  *this = std::move(loaded);
}

}  // namespace binade::amp
