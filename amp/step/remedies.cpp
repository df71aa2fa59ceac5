#include "binade/amp/step/remedies.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "binade/amp/incident/damage.h"
#include "binade/amp/step/repro_bundle.h"
#include "binade/amp/step/transaction.h"
#include "binade/core/error.h"

namespace binade::amp {
namespace {

constexpr int kOldestTried = 3;  // checkpoints that a replay is tried from
constexpr std::int64_t kSpikesSkipped = 2;
constexpr std::int64_t kRepeats = 3;        // of a step whose bits differed
constexpr std::int64_t kMostIncidents = 2;  // of one step that get a repro bundle: later ones follow from these

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string listed(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> names;
  for (const std::int64_t number : numbers) names.push_back(std::to_string(number));
  return listed(names);
}

}  // namespace

Next Remedies::answer(const Attempt& attempt, Trial& trial, StepResult& result) {
  std::string why;
  if (lower_scale(attempt, trial, why)) return Next::kAgain;
  Incident incident{
      .step = result.step, .attempt = result.attempt, .what = describe(attempt, transaction_.optimizer().parameters())};
  if (!why.empty()) incident.what += "; " + why;
  incident.no_capsule = write_repro_bundle(attempt, trial, result.attempt);
  trial.cause = attempt.cause;
  incident.diagnosis = investigate(attempt, trial);
  const Next next = apply_next(incident, attempt, trial);
  result.incident = std::move(incident);
  return next;
}

// ---- the loss scale -----------------------------------------------------------------------------

bool Remedies::finite_at_floor(const Trial& trial) {
  if (!transaction_.scaler().can_lower()) return false;
  Plan plan = trial.plan;
  plan.loss_scale = transaction_.scaler().options().floor;
  const Attempt attempt = runner_.rehearse(plan, trial.feed);
  return attempt.cause == AbortCause::kNone || attempt.cause == AbortCause::kUpdate;
}

/// The ordinary answer to gradients that overflow. False: the scale does not explain it, or no longer; `why` may say
/// so.
bool Remedies::lower_scale(const Attempt& attempt, Trial& trial, std::string& why) {
  const bool nan = attempt.cause == AbortCause::kNan;
  if (!nan && attempt.cause != AbortCause::kOverflow) return false;
  const LossScaler& scaler = transaction_.scaler();
  bool by_scale = scaler.can_lower();
  if (!trial.before_overflow) trial.before_overflow = scaler.snapshot();
  if (by_scale && nan && !trial.nan_is_overflow) {
    if (!trial.before_nan)
      trial.before_nan = scaler.snapshot();  // half the scale is tried next
    else
      by_scale = trial.nan_is_overflow = finite_at_floor(trial);
  }
  if (by_scale) {
    const ScaleVerdict verdict = transaction_.lower_scale();
    if (verdict == ScaleVerdict::kLowered) return true;
    why = explain(verdict, scaler.options());
    return false;
  }
  if (trial.before_nan) {
    transaction_.restore_scale(*trial.before_nan);
    why = "lowering the loss scale does not help";
  } else {
    why = explain(scaler.adjustable() ? ScaleVerdict::kAtFloor : ScaleVerdict::kNotAdjustable, scaler.options());
    transaction_.restore_scale(*trial.before_overflow);
  }
  return false;
}

// ---- where and why ------------------------------------------------------------------------------

/// Returns why there is no repro bundle, if one was wanted.
std::string Remedies::write_repro_bundle(const Attempt& attempt, const Trial& trial, std::int64_t number) const {
  if (!repro_sink_ || transaction_.count().incidents >= kMostIncidents) return "";
  if (!trial.feed.contents)
    return "the type of the batch has no state(), so this attempt cannot be run again elsewhere; give it state() and "
           "from_state(), as io::TextBatch has";
  repro_sink_(attempt.step, number, make_repro_bundle(transaction_.state(), attempt, trial, number));
  return "";
}

Attempt Remedies::replay(const Attempt& failed, const Variant& variant, Trial& trial, TapeObserver* observer) {
  Plan plan = trial.plan;
  plan.loss_scale = variant.scale.value_or(failed.loss_scale);
  for (const PrecisionPolicy::Override& promoted : variant.promote)
    plan.policy = plan.policy.with(promoted.glob, promoted.dtype);
  for (const std::int64_t sample : variant.without) plan.leave_out(trial.plan.original(sample));
  if (plan.micro_batches.empty()) return failed;
  if (variant.earlier_weights) return replay_with_earlier_weights(plan, trial, observer);
  return runner_.rehearse(plan, trial.feed, observer);
}

Attempt Remedies::replay_with_earlier_weights(const Plan& plan, Trial& trial, TapeObserver* observer) {
  Attempt attempt;
  attempt.cause = AbortCause::kLoss;
  const std::int64_t steps = transaction_.count().steps;
  transaction_.with_other_weights([&](const Transaction::PutWeights& put) {
    std::int64_t newest = steps;
    for (int tried = 0; tried < kOldestTried && !attempt.commits(); ++tried) {
      std::optional<RecoveryPoint> point = find_recovery_point_(newest,
                                                                transaction_.remediation().rollback_floor(steps));
      if (!point) break;
      newest = point->step - 1;
      put(point->state);
      attempt = runner_.rehearse(plan, trial.feed, observer);
      // The loss at weights of long ago is far from today's: it counts only if a spike was the trouble.
      if (attempt.cause == AbortCause::kSpike && trial.cause != AbortCause::kSpike) attempt.cause = AbortCause::kNone;
      if (attempt.commits()) trial.recovery = std::move(point);
    }
  });
  return attempt;
}

Diagnosis Remedies::investigate(const Attempt& attempt, Trial& trial) {
  optim::Optimizer& optimizer = transaction_.optimizer();
  const Plan& plan = trial.plan;
  const std::int64_t samples = plan.samples_per_micro_batch;
  const bool can_go_back = find_recovery_point_ && options_.on_nan == OnNan::kRemedy &&
                           transaction_.remediation().may_roll_back(transaction_.count().steps);
  const Experiments experiments{
      .run = [&](const Variant& variant, TapeObserver* observer) { return replay(attempt, variant, trial, observer); },
      .batch = plan.left_out.empty() ? samples : 0,
      .stride = samples,
      .rows = trial.removable_samples(),
      .earlier_weights = can_go_back,
      .damage = [&] { return find_damage(transaction_.model(), optimizer, attempt.step); },
      .bad_gradient = [&] { return find_bad_gradient(attempt, optimizer.parameters()); }};
  Diagnosis diagnosis = diagnose(attempt, experiments);
  for (std::int64_t& sample : diagnosis.samples) sample = plan.original(sample);
  if (diagnosis.first_bad && diagnosis.first_bad->sample && samples > 0) {
    FirstBad& bad = *diagnosis.first_bad;
    bad.sample = plan.original(*bad.sample);
    const io::BatchOrigin* origin = trial.feed.origins[static_cast<std::size_t>(*bad.sample / samples)];
    // Micro-batches of a repro bundle may have fewer samples than its first one.
    if (origin != nullptr && *bad.sample % samples < std::ssize(origin->samples))
      bad.sample_id = origin->samples[static_cast<std::size_t>(*bad.sample % samples)];
  }
  return diagnosis;
}

// ---- remedies, the cheapest first ---------------------------------------------------------------

Next Remedies::apply_next(Incident& incident, const Attempt& attempt, Trial& trial) {
  const Diagnosis& d = incident.diagnosis;
  bool remedy = options_.on_nan == OnNan::kRemedy;
  const bool skip = options_.on_nan != OnNan::kStop;
  std::int64_t incidents = 0;
  if (remedy) incidents = transaction_.count_incident();
  remedy = remedy && incidents <= options_.remediation.incidents;
  if (remedy && d.cause == CauseClass::kNotReproducible && incidents <= kRepeats) {
    incident.remedy = {.action = RemedyAction::kNone, .what = "the step is run once more", .verified = true};
    return Next::kAgain;
  }
  if (remedy && attempt.cause == AbortCause::kSpike) return answer_spike(incident, trial);
  if (remedy && (set_fitting_scale(incident, attempt, trial) || promote_ops(incident) || quarantine(incident, trial)))
    return Next::kAgain;
  if (skip && leave_out_micro_batch(incident, attempt, trial)) return Next::kAgain;
  // Weights that are not finite make every batch fail.
  const bool by_state = d.cause == CauseClass::kCorruptedState || d.earlier_weights;
  if (remedy && by_state && roll_back(incident, trial)) return Next::kReturn;
  if (skip && !by_state && skip_batch(incident)) return Next::kReturn;
  incident.remedy = {.action = RemedyAction::kStop, .what = "nothing was committed"};
  return Next::kStop;
}

/// For a scale that is fixed, or fell too often, and is still to blame.
bool Remedies::set_fitting_scale(Incident& incident, const Attempt& attempt, Trial& trial) {
  if (incident.diagnosis.cause != CauseClass::kLossScaleOverflow) return false;
  double fits = 1, too_large = attempt.loss_scale;
  while (too_large / fits > 2) {
    const double middle = std::exp2(std::floor((std::log2(fits) + std::log2(too_large)) / 2));
    (replay(attempt, {.scale = middle}, trial, nullptr).commits() ? fits : too_large) = middle;
  }
  LossScaler::State scaler = transaction_.scaler().snapshot();
  scaler.scale = fits;
  transaction_.restore_scale(scaler);
  incident.remedy = {.action = RemedyAction::kLowerScale,
                     .what = fmt::format("the loss scale is {} from now on", fits),
                     .target = fmt::format("{}", fits),
                     .verified = true};
  return true;
}

bool Remedies::promote_ops(Incident& incident) {
  std::int64_t until = 0;
  for (const std::string& target : incident.diagnosis.promote) until = std::max(until, transaction_.promote(target));
  if (until == 0) return false;
  const std::string targets = listed(incident.diagnosis.promote);
  incident.remedy = {.action = RemedyAction::kPromoteOp,
                     .what = fmt::format("{} in f32 until step {}", targets, until),
                     .target = targets,
                     .until_step = until,
                     .verified = true};
  return true;
}

bool Remedies::quarantine(Incident& incident, Trial& trial) {
  const std::vector<std::int64_t>& samples = incident.diagnosis.samples;
  if (samples.empty()) return false;
  const std::int64_t stride = trial.plan.samples_per_micro_batch;
  std::vector<std::int64_t> ids;
  for (const std::int64_t sample : samples) {
    const io::BatchOrigin& origin = *trial.feed.origins[static_cast<std::size_t>(sample / stride)];
    ids.push_back(origin.samples[static_cast<std::size_t>(sample % stride)]);
    transaction_.quarantine(ids.back());
  }
  for (const std::int64_t sample : samples) trial.plan.leave_out(sample);
  trial.nan_resolved();
  incident.remedy = {.action = RemedyAction::kQuarantineSample,
                     .what = fmt::format("sample{} {} of the data set left out, now and later",
                                         ids.size() == 1 ? "" : "s", listed(ids)),
                     .target = listed(ids),
                     .verified = true};
  return true;
}

bool Remedies::leave_out_micro_batch(Incident& incident, const Attempt& attempt, Trial& trial) {
  if (attempt.bad_micro_batch < 0 || trial.plan.micro_batches.size() < 2) return false;
  std::erase(trial.plan.micro_batches, attempt.bad_micro_batch);
  trial.micro_batches_left_out.push_back(attempt.bad_micro_batch);
  trial.nan_resolved();
  incident.remedy = {.action = RemedyAction::kSkipBatch,
                     .what = fmt::format("micro-batch {} is left out", attempt.bad_micro_batch),
                     .target = fmt::format("micro-batch {}", attempt.bad_micro_batch)};
  return true;
}

bool Remedies::skip_batch(Incident& incident) {
  if (transaction_.count().skips >= options_.remediation.skips) return false;
  transaction_.count_skip();
  incident.remedy = {.action = RemedyAction::kSkipBatch, .what = "the batch is skipped", .steps_lost = 1};
  return true;
}

/// A loss that is finite and absurd: skips batches, then goes back to a checkpoint with which it is not. If neither
/// helps, the data is like this now: the loss is accepted, since a run must not end for it.
Next Remedies::answer_spike(Incident& incident, const Trial& trial) {
  if (transaction_.count().skips < kSpikesSkipped && skip_batch(incident)) return Next::kReturn;
  if (roll_back(incident, trial)) return Next::kReturn;
  transaction_.forget_spikes();
  incident.remedy = {.action = RemedyAction::kNone,
                     .what = "the loss is accepted: no other batch and no earlier weights have a better one"};
  return Next::kAgain;
}

/// Back to a checkpoint whose weights made the step finite. If the state was to blame, the run repeats the steps since
/// then. Otherwise it skips the batches in between, and the learning rate falls for a while.
bool Remedies::roll_back(Incident& incident, const Trial& trial) {
  const std::int64_t from = transaction_.count().steps;
  if (!trial.recovery || !transaction_.remediation().may_roll_back(from)) return false;
  const RecoveryPoint& point = *trial.recovery;
  const bool state_to_blame = incident.diagnosis.cause == CauseClass::kCorruptedState;
  transaction_.go_back(point, state_to_blame, trial.feed.origins.back());
  const std::int64_t steps = transaction_.count().steps;
  incident.remedy = {.action = RemedyAction::kRollback,
                     .what = fmt::format("back to step {} ({})", steps, point.name),
                     .target = point.name,
                     .steps_lost = from - steps,
                     .verified = true};
  if (!state_to_blame) {
    const RemediationPolicy& remediation = transaction_.remediation();
    incident.remedy.until_step = remediation.lr_cut_until();
    incident.remedy.what += fmt::format(" past the batches in between, at {} of the learning rate until step {}",
                                        remediation.lr_factor(steps + 1), remediation.lr_cut_until());
  }
  return true;
}

}  // namespace binade::amp
