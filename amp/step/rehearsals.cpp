#include "binade/amp/step/rehearsals.h"

#include <algorithm>
#include <cmath>

#include "binade/amp/ranks/shared_telemetry.h"
#include "binade/amp/step/attempt.h"
#include "binade/amp/step/callback.h"
#include "binade/amp/step/remedies.h"
#include "binade/amp/step/repro_bundle.h"
#include "binade/amp/step/transaction.h"

namespace binade::amp {

Attempt attempt_ahead(const Transaction& transaction, const StepFeed& feed, std::int64_t ahead) {
  Attempt attempt;
  attempt.step = transaction.next_step() + ahead;
  attempt.loss_scale = transaction.scaler().scale();
  attempt.micro_batches = static_cast<int>(feed.origins.size());
  attempt.lr = transaction.lr_of(attempt.step);
  attempt.lr_cut = transaction.remediation().lr_factor(attempt.step);
  return attempt;
}

void measure_scale(Transaction& transaction, AttemptRunner& runner, const OngoingStep& ongoing, Telemetry& telemetry) {
  AttemptPlan plan = ongoing.plan;
  const double floor = transaction.scaler().options().floor;
  for (plan.loss_scale = transaction.scaler().scale();; plan.loss_scale = std::max(plan.loss_scale * 0x1p-8, floor)) {
    telemetry.begin();
    const Attempt attempt = runner.rehearse(plan, ongoing.feed, &telemetry);
    complete_telemetry(transaction.ranks(), telemetry, attempt);
    if (attempt.cause == AbortCause::kBadData) return;
    const double headroom = telemetry.least(Direction::kBackward).binades;
    if (!std::isfinite(headroom) && plan.loss_scale > floor) continue;
    transaction.begin_with_scale(plan.loss_scale, headroom);
    return;
  }
}

std::optional<Telemetry> confirm_warnings(const Transaction& transaction, AttemptRunner& runner,
                                          const OngoingStep& ongoing) {
  const std::optional<double> factor = transaction.warnings().confirmation_factor(ongoing.plan.step);
  if (!factor) return std::nullopt;
  AttemptPlan plan = ongoing.plan;
  plan.loss_scale = transaction.scaler().scale() * *factor;
  Telemetry observed;
  observed.begin({.zeros = true});
  const Attempt raised = runner.rehearse(plan, ongoing.feed, &observed);
  complete_telemetry(transaction.ranks(), observed, raised);
  return raised.scan.finite() ? std::optional(std::move(observed)) : std::nullopt;
}

void check_settings(const Transaction& transaction, const StateDict& bundle) {
  check_repro_bundle(bundle, [&](const StateDict& state) { return transaction.changes_since(state); });
}

ReproReplay replay_attempt(Transaction& transaction, AttemptRunner& runner, Remedies& remedies, const StateDict& bundle,
                           OngoingStep ongoing) {
  const StepContextScope context(transaction.seed(), transaction.next_step());
  for (Callback* callback : transaction.callbacks()) callback->before_step(transaction.next_step());
  return replay_bundle(bundle, ongoing, transaction, runner, remedies);
}

}  // namespace binade::amp
