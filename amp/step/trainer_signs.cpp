#include <algorithm>
#include <cmath>

#include "binade/amp/step/trial.h"

namespace binade::amp {

/// Applies what earlier telemetry decided for this step.
void Trainer::prevent() {
  for (const std::string& target : signs_.take_due(steps_ + 1)) ladder_.promote(target, steps_ + 1);
}

/// The loss scale to begin with, from the headroom of a backward that is not committed.
void Trainer::measure_scale(const Trial& trial) {
  Plan plan = trial.plan;
  const double floor = scaler_.options().floor;
  for (plan.scale = scaler_.scale();; plan.scale = std::max(plan.scale * 0x1p-8, floor)) {
    telemetry_.begin();
    attempt(plan, trial.feed, &telemetry_);
    abandon();
    telemetry_.settle();
    const double headroom = telemetry_.least(Direction::kBackward).binades;
    if (!std::isfinite(headroom) && plan.scale > floor) continue;
    scaler_.begin_with(plan.scale, headroom);
    return;
  }
}

std::optional<Telemetry> Trainer::prove_signs(const Trial& trial) {
  const std::optional<double> factor = signs_.proof_factor(steps_ + 1);
  if (!factor) return std::nullopt;
  Plan plan = trial.plan;
  plan.scale = scaler_.scale() * *factor;
  Telemetry seen;
  seen.begin({.zeros = true});
  const StepState raised = attempt(plan, trial.feed, &seen);
  abandon();
  seen.settle();
  return raised.scan.finite() ? std::optional(std::move(seen)) : std::nullopt;
}

void Trainer::watch_commit(const StepState& state, const Trial& trial, StepResult& result,
                           const std::function<void()>& write) {
  const optim::StepInput input = step_input(state);
  signs_.before_commit(result.step, optimizer_.parameters());
  write();
  account(state, trial, result);
  result.signs = signs_.after_commit({.step = result.step,
                                      .seen = telemetry_,
                                      .raised = trial.raised ? &*trial.raised : nullptr,
                                      .optimizer = optimizer_,
                                      .input = input,
                                      .loss = state.loss,
                                      .grad_norm = state.grad_norm,
                                      .loss_scale = state.loss_scale,
                                      .least_scale = scaler_.adjustable() ? scaler_.options().floor : state.loss_scale,
                                      .stochastic = options_.precision.stochastic_rounding,
                                      .prevents = options_.on_nan == OnNan::kLadder});
  result.attention_logits = signs_.attention_logits(result.step, telemetry_);
  result.attention_entropy = signs_.attention_entropy(result.step, telemetry_);
  result.update_rms = signs_.update_rms(result.step);
}

/// Runs an evaluation once more under watch.
Incident Trainer::investigate_evaluation(const std::string& what, const std::function<void()>& again) {
  FirstBadSearch search(0);
  settle();
  {
    const EvaluationScope scope(*this);
    const ObserverScope watched(search);
    again();
  }
  Incident incident{.step = steps_, .what = what, .warning = true};
  Diagnosis& d = incident.diagnosis;
  d.replays = 1;
  d.first_bad = search.found();
  if (d.first_bad) {
    FirstBad& bad = *d.first_bad;
    bad.sample.reset();  // rows of an evaluation's batch are not the training's samples
    bad.samples.clear();
    if (bad.direction == "state" && ema_) bad.tensor = "average of " + bad.parameter;
    for (const auto& [name, buffer] : nn::named_buffers(model_))
      if (bad.direction == "input" && name.starts_with(bad.module + ".") && !all_finite(buffer->committed())) {
        bad.direction = "state";
        bad.tensor = name;
        break;
      }
    const bool stored = bad.direction == "state", given = bad.direction == "input";
    const bool half = bad.dtype == name_of(DType::f16) || bad.dtype == name_of(DType::bf16);
    d.cause = stored  ? CauseClass::kCorruptedState
              : given ? CauseClass::kBadInput
              : half  ? CauseClass::kActivationOverflow
                      : CauseClass::kNotProven;
    d.confidence = stored || given ? Confidence::kProven : half ? Confidence::kLikely : Confidence::kNotProven;
  }
  d.advice = advise(d);
  incident.remedy = {.action = RemedyAction::kNone,
                     .what = "training goes on, unharmed; this evaluation is never the best"};
  return incident;
}

}  // namespace binade::amp
