#include <algorithm>
#include <cmath>

#include "binade/amp/incident/damage.h"
#include "binade/amp/step/trial.h"
#include "binade/core/error.h"

namespace binade::amp {
namespace {

constexpr int kOldestTried = 3;  // checkpoints that a replay is tried from
constexpr std::int64_t kSpikesSkipped = 2;
constexpr std::int64_t kRepeats = 3;  // of a step whose bits differed

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

/// `state` with the data section of `data` instead of its own.
StateDict with_data(const StateDict& state, const StateDict& data) {
  StateDict result;
  for (const auto& [name, value] : state.values())
    if (!name.starts_with("data/")) result.put(name, value);
  result.merge("data", data);
  return result;
}

/// The place in the data that `place` names, with what `findings` left out.
StateDict with_quarantine(const StateDict& place, const StateDict& findings) {
  StateDict result;
  for (const auto& [name, value] : place.values())
    result.put(name, name == "quarantine" && findings.contains(name) ? findings.values().at(name) : value);
  return result;
}

}  // namespace

void Trainer::Plan::leave_out(std::int64_t row) {
  rows.insert(std::ranges::lower_bound(rows, row), row);
  const std::int64_t part = row / rows_per_part;
  if (std::ranges::count_if(rows, [&](std::int64_t r) { return r / rows_per_part == part; }) == rows_per_part)
    std::erase(parts, static_cast<int>(part));
}

Trainer::Next Trainer::recover(const StepState& state, Trial& trial, StepResult& result) {
  std::string why;
  if (lower_scale(state, trial, why)) return Next::kAgain;
  Incident incident{.step = result.step, .attempt = result.attempt, .what = describe(state, optimizer_.parameters())};
  if (!why.empty()) incident.what += "; " + why;
  incident.no_capsule = fill_capsule(state, trial, result.attempt);
  trial.trouble = state.cause;
  incident.diagnosis = investigate(state, trial);
  incident.drill = drill_.concerns(result.step);
  incident.headroom = telemetry_.by_module();
  const Next next = climb(incident, state, trial);
  result.incident = std::move(incident);
  return next;
}

// ---- the loss scale -----------------------------------------------------------------------------

bool Trainer::finite_at_floor(const Trial& trial) {
  if (!scaler_.can_lower()) return false;
  Plan plan = trial.plan;
  plan.scale = scaler_.options().floor;
  const StepState probe = attempt(plan, trial.feed, nullptr);
  abandon();
  return probe.cause == AbortCause::kNone || probe.cause == AbortCause::kUpdate;
}

/// The ordinary answer to gradients that overflow. False: the scale explains nothing, or not any more, and `why` may
/// say so.
bool Trainer::lower_scale(const StepState& state, Trial& trial, std::string& why) {
  const bool nan = state.cause == AbortCause::kNan;
  if (!nan && state.cause != AbortCause::kOverflow) return false;
  bool by_scale = scaler_.can_lower();
  if (!trial.before_overflow) trial.before_overflow = scaler_.snapshot();
  if (by_scale && nan && !trial.nan_is_overflow) {
    if (!trial.before_nan)
      trial.before_nan = scaler_.snapshot();  // half the scale is tried next
    else
      by_scale = trial.nan_is_overflow = finite_at_floor(trial);
  }
  if (by_scale) {
    const ScaleVerdict verdict = scaler_.overflowed();
    if (verdict == ScaleVerdict::kLowered) return true;
    why = explain(verdict, scaler_.options());
    return false;
  }
  if (trial.before_nan) {
    scaler_.restore(*trial.before_nan);
    why = "lowering the loss scale does not help";
  } else {
    why = explain(scaler_.adjustable() ? ScaleVerdict::kAtFloor : ScaleVerdict::kNotAdjustable, scaler_.options());
    scaler_.restore(*trial.before_overflow);
  }
  return false;
}

// ---- where and why ------------------------------------------------------------------------------

StepState Trainer::replay(const StepState& failed, const Variant& variant, Trial& trial, TapeObserver* observer) {
  Plan plan = trial.plan;
  plan.scale = variant.scale.value_or(failed.loss_scale);
  for (const PrecisionPolicy::Override& promoted : variant.promote)
    plan.policy = plan.policy.with(promoted.glob, promoted.dtype);
  for (const std::int64_t row : variant.without) plan.leave_out(trial.original(row));
  if (plan.parts.empty()) return failed;
  if (variant.earlier_weights) return replay_with_earlier_weights(plan, trial, observer);
  const StepState outcome = attempt(plan, trial.feed, observer);
  abandon();
  return outcome;
}

StepState Trainer::replay_with_earlier_weights(const Plan& plan, Trial& trial, TapeObserver* observer) {
  const StateDict now = state();
  const auto put = [&](const StateDict& saved) {
    const StateDict from = fitting(saved);
    StateDict model = from.section("model");
    const StateDict norm = from.section("norm");
    for (const auto& [name, value] : norm.values()) model.put(name, value);
    nn::load_state_dict(model_, model);
    optimizer_.load_state(from.section("optim"));
  };
  StepState outcome;
  outcome.cause = AbortCause::kLoss;
  std::int64_t newest = steps_;
  for (int tried = 0; tried < kOldestTried && !outcome.commits(); ++tried) {
    std::optional<RecoveryPoint> point = find_recovery_point_(newest, ladder_.rollback_floor(steps_));
    if (!point) break;
    newest = point->step - 1;
    put(point->state);
    outcome = attempt(plan, trial.feed, observer);
    abandon();
    // Old weights give a loss far from the current losses. That counts as a spike only if a spike was the trouble.
    if (outcome.cause == AbortCause::kSpike && trial.trouble != AbortCause::kSpike) outcome.cause = AbortCause::kNone;
    if (outcome.commits()) trial.recovery = std::move(point);
  }
  put(now);
  return outcome;
}

Diagnosis Trainer::investigate(const StepState& state, Trial& trial) {
  const bool can_go_back = find_recovery_point_ && ladder_.may_roll_back(steps_) && options_.on_nan == OnNan::kLadder;
  const Experiments experiments{.run = [&](const Variant& variant,
                                           TapeObserver* observer) { return replay(state, variant, trial, observer); },
                                .batch = trial.plan.rows.empty() ? trial.plan.rows_per_part : 0,
                                .stride = trial.plan.rows_per_part,
                                .rows = trial.rows_that_can_go(),
                                .earlier_weights = can_go_back,
                                .damage = [&] { return find_damage(model_, optimizer_, state.step); },
                                .bad_gradient = [&] { return find_bad_gradient(state, optimizer_.parameters()); }};
  Diagnosis diagnosis = diagnose(state, experiments);
  for (std::int64_t& row : diagnosis.samples) row = trial.original(row);
  const std::int64_t rows = trial.plan.rows_per_part;
  if (diagnosis.first_bad && diagnosis.first_bad->sample && rows > 0) {
    FirstBad& bad = *diagnosis.first_bad;
    bad.sample = trial.original(*bad.sample);
    const io::BatchOrigin* origin = trial.feed.origins[static_cast<std::size_t>(*bad.sample / rows)];
    // A capsule's micro-batches may have fewer rows than its first one.
    if (origin != nullptr && *bad.sample % rows < std::ssize(origin->samples))
      bad.sample_id = origin->samples[static_cast<std::size_t>(*bad.sample % rows)];
  }
  return diagnosis;
}

// ---- what follows -------------------------------------------------------------------------------

Trainer::Next Trainer::climb(Incident& incident, const StepState& state, Trial& trial) {
  const Diagnosis& d = incident.diagnosis;
  const bool ladder = options_.on_nan == OnNan::kLadder && ++incidents_ <= options_.ladder.incidents;
  if (ladder && d.cause == CauseClass::kNotReproducible && incidents_ <= kRepeats) {
    incident.remedy = {.action = RemedyAction::kNone, .what = "the step is run once more", .verified = true};
    return Next::kAgain;
  }
  if (ladder && state.cause == AbortCause::kSpike) return answer_spike(incident, trial);
  if (ladder &&
      (to_fitting_scale(incident, state, trial) || promote_ops(incident, state) || quarantine(incident, trial)))
    return Next::kAgain;
  if (options_.on_nan != OnNan::kStop && leave_out_micro_batch(incident, state, trial)) return Next::kAgain;
  // Weights that are not finite make every batch fail.
  const bool by_state = d.cause == CauseClass::kCorruptedState || d.earlier_weights;
  if (ladder && by_state && roll_back(incident, trial)) return Next::kReturn;
  if (options_.on_nan != OnNan::kStop && !by_state && skip_batch(incident)) return Next::kReturn;
  incident.remedy = {.action = RemedyAction::kStop, .what = "nothing was committed"};
  return Next::kStop;
}

/// A scale that was fixed, or fell too often, and is still to blame.
bool Trainer::to_fitting_scale(Incident& incident, const StepState& state, Trial& trial) {
  if (incident.diagnosis.cause != CauseClass::kLossScaleOverflow) return false;
  double fits = 1, too_large = state.loss_scale;
  while (too_large / fits > 2) {
    const double middle = std::exp2(std::floor((std::log2(fits) + std::log2(too_large)) / 2));
    (replay(state, {.scale = middle}, trial, nullptr).commits() ? fits : too_large) = middle;
  }
  LossScaler::State scaler = scaler_.snapshot();
  scaler.scale = fits;
  scaler_.restore(scaler);
  incident.remedy = {.action = RemedyAction::kLowerScale,
                     .what = fmt::format("the loss scale is {} from now on", fits),
                     .target = fmt::format("{}", fits),
                     .verified = true};
  return true;
}

bool Trainer::promote_ops(Incident& incident, const StepState& state) {
  std::int64_t until = 0;
  for (const std::string& target : incident.diagnosis.promote)
    until = std::max(until, ladder_.promote(target, state.step));
  if (until == 0) return false;
  const std::string targets = listed(incident.diagnosis.promote);
  incident.remedy = {.action = RemedyAction::kPromoteOp,
                     .what = fmt::format("{} in f32 until step {}", targets, until),
                     .target = targets,
                     .until_step = until,
                     .verified = true};
  return true;
}

bool Trainer::quarantine(Incident& incident, Trial& trial) {
  const std::vector<std::int64_t>& rows = incident.diagnosis.samples;
  if (rows.empty()) return false;
  std::vector<std::int64_t> ids;
  for (const std::int64_t row : rows) {
    const io::BatchOrigin& origin = *trial.feed.origins[static_cast<std::size_t>(row / trial.plan.rows_per_part)];
    ids.push_back(origin.samples[static_cast<std::size_t>(row % trial.plan.rows_per_part)]);
    if (data_.quarantine) data_.quarantine(ids.back());
  }
  for (const std::int64_t row : rows) trial.plan.leave_out(row);
  trial.nan_resolved();
  incident.remedy = {.action = RemedyAction::kQuarantineSample,
                     .what = fmt::format("sample{} {} of the data set left out, now and later",
                                         ids.size() == 1 ? "" : "s", listed(ids)),
                     .target = listed(ids),
                     .verified = true};
  return true;
}

bool Trainer::leave_out_micro_batch(Incident& incident, const StepState& state, Trial& trial) {
  if (state.bad_micro_batch < 0 || trial.plan.parts.size() < 2) return false;
  std::erase(trial.plan.parts, state.bad_micro_batch);
  trial.parts_left_out.push_back(state.bad_micro_batch);
  trial.nan_resolved();
  incident.remedy = {.action = RemedyAction::kSkipBatch,
                     .what = fmt::format("micro-batch {} is left out", state.bad_micro_batch),
                     .target = fmt::format("micro-batch {}", state.bad_micro_batch)};
  return true;
}

bool Trainer::skip_batch(Incident& incident) {
  if (skips_ >= options_.ladder.skips) return false;
  ++skips_;
  incident.remedy = {.action = RemedyAction::kSkipBatch, .what = "the batch is skipped", .steps_lost = 1};
  return true;
}

/// A loss that is finite and absurd: another batch; then a checkpoint with which it is not. What neither mends is how
/// the data is now, and a run must not end for it.
Trainer::Next Trainer::answer_spike(Incident& incident, Trial& trial) {
  if (skips_ < kSpikesSkipped && skip_batch(incident)) return Next::kReturn;
  if (roll_back(incident, trial)) return Next::kReturn;
  spikes_ = SpikeGuard();
  incident.remedy = {.action = RemedyAction::kNone,
                     .what = "the loss is accepted: no other batch and no earlier weights have a better one"};
  return Next::kAgain;
}

/// Back to a checkpoint whose weights made the step finite. Where the state was to blame the data goes back with it and
/// the run repeats what it would have done; else the batches in between are passed over, and the learning rate falls
/// for a while.
bool Trainer::roll_back(Incident& incident, Trial& trial) {
  if (!trial.recovery || !ladder_.may_roll_back(steps_)) return false;
  const RecoveryPoint& point = *trial.recovery;
  const bool state_to_blame = incident.diagnosis.cause == CauseClass::kCorruptedState;
  const std::int64_t from = steps_, skipped = skipped_;
  if (!state_to_blame && trial.feed.origins.back() != nullptr && data_.commit) data_.commit(*trial.feed.origins.back());
  const StateDict data = data_.state ? data_.state() : waiting_cursor_;
  const Ladder ladder = ladder_;
  load_state(with_data(point.state, state_to_blame ? with_quarantine(point.state.section("data"), data) : data));
  skipped_ = skipped;
  ladder_ = ladder;
  ladder_.rolled_back(from, steps_, !state_to_blame);
  incident.remedy = {.action = RemedyAction::kRollback,
                     .what = fmt::format("back to step {} ({})", steps_, point.name),
                     .target = point.name,
                     .steps_lost = from - steps_,
                     .verified = true};
  if (!state_to_blame) {
    incident.remedy.until_step = ladder_.lr_cut_until();
    incident.remedy.what += fmt::format(" past the batches in between, at {} of the learning rate until step {}",
                                        ladder_.lr_factor(steps_ + 1), ladder_.lr_cut_until());
  }
  return true;
}

}  // namespace binade::amp
