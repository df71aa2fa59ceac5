#include "binade/amp/step/remedies.h"

#include <fmt/ranges.h>

#include <cmath>

#include "binade/amp/incident/damage.h"
#include "binade/amp/ranks/agree.h"
#include "binade/amp/ranks/shared_diagnosis.h"
#include "binade/amp/ranks/state_bytes.h"
#include "binade/amp/step/repro_bundle.h"
#include "binade/amp/step/transaction.h"
#include "binade/core/gpus.h"

namespace binade::amp {
namespace {

constexpr int kMaxCheckpoints = 3;       // number of checkpoints whose weights are tried
constexpr std::int64_t kMaxRepeats = 3;  // retries of a step that is not reproducible
constexpr std::int64_t kMaxBundles = 2;  // repro bundles per step: later incidents follow from the first ones

template <class T>
std::string listed(const std::vector<T>& items) {
  return fmt::format("{}", fmt::join(items, ", "));
}

bool computes_in_halves(const PrecisionPolicy& policy) {
  return is_half(policy.low) ||
         std::ranges::any_of(policy.overrides, [](const PrecisionPolicy::Override& o) { return is_half(o.dtype); });
}

}  // namespace

Next Remedies::handle_abort(const Attempt& attempt, OngoingStep& ongoing, StepResult& result) {
  std::string why;
  if (lower_scale(attempt, ongoing, why)) return Next::kRetry;
  Incident incident{
      .step = result.step, .attempt = result.attempt, .what = describe(attempt, transaction_.parameters())};
  if (!why.empty()) incident.what += "; " + why;
  incident.no_capsule = write_repro_bundle(attempt, ongoing, result.attempt);
  incident.diagnosis = investigate(attempt, ongoing);
  if (const auto& bad = incident.diagnosis.first_bad; attempt.cause == AbortCause::kBadData && bad && bad->sample)
    incident.what += bad->sample_id ? fmt::format("; sample {} of the data set", *bad->sample_id)
                                    : fmt::format("; sample {} of the batch", *bad->sample);
  const Next next = apply_next(incident, attempt, ongoing);
  result.incident = std::move(incident);
  return next;
}

// ---- the loss scale -----------------------------------------------------------------------------

bool Remedies::finite_at_floor(const OngoingStep& ongoing) {
  if (!transaction_.scaler().can_lower()) return false;
  AttemptPlan plan = ongoing.plan;
  plan.loss_scale = transaction_.scaler().options().floor;
  plan.any_loss = true;
  const Attempt attempt = runner_.rehearse(plan, ongoing.feed);
  return attempt.cause == AbortCause::kNone || attempt.cause == AbortCause::kUpdate;
}

/// Lowers the scale after an ordinary overflow of gradients. Returns false, perhaps with the reason in `why`, if the
/// scale is not the cause or cannot be lowered.
bool Remedies::lower_scale(const Attempt& attempt, OngoingStep& ongoing, std::string& why) {
  const bool nan = attempt.cause == AbortCause::kNan;
  if (!nan && attempt.cause != AbortCause::kOverflow) return false;
  const LossScaler& scaler = transaction_.scaler();
  bool by_scale = scaler.can_lower();
  if (!ongoing.before_overflow) ongoing.before_overflow = scaler.snapshot();
  if (by_scale && nan && !ongoing.nan_is_overflow) {
    if (!ongoing.before_nan)
      ongoing.before_nan = scaler.snapshot();  // first NaN: only lowers the scale, as after an overflow
    else
      by_scale = ongoing.nan_is_overflow = finite_at_floor(ongoing);
  }
  if (by_scale) {
    const ScaleVerdict verdict = transaction_.lower_scale();
    if (verdict == ScaleVerdict::kLowered) return true;
    why = explain(verdict, scaler.options());
    return false;
  }
  if (ongoing.before_nan) {
    transaction_.restore_scale(*ongoing.before_nan);
    why = "a lower loss scale does not help";
  } else {
    why = explain(scaler.adjustable() ? ScaleVerdict::kAtFloor : ScaleVerdict::kNotAdjustable, scaler.options());
    transaction_.restore_scale(*ongoing.before_overflow);
  }
  return false;
}

// ---- diagnosis ----------------------------------------------------------------------------------

/// Sends the repro bundle of attempt `number` to the sink. Returns the reason if the batches cannot be saved; otherwise
/// an empty text.
std::string Remedies::write_repro_bundle(const Attempt& attempt, const OngoingStep& ongoing,
                                         std::int64_t number) const {
  if (transaction_.counters().incidents >= kMaxBundles) return "";
  if (!runner_.ranks().alone() && ongoing.feed.contents && !ongoing.feed.holds_every_micro_batch())
    return write_shared_bundle(attempt, ongoing, number);
  if (!repro_sink_) return "";
  if (!ongoing.feed.contents)
    return "the type of the batch has no state(), so this attempt cannot be run again elsewhere; give it state() and "
           "from_state(), as io::TextBatch has";
  repro_sink_(attempt.step, number,
              make_repro_bundle(transaction_.state(), attempt, ongoing, number, ongoing.feed.contents));
  return "";
}

/// Like write_repro_bundle(), if each rank holds a part of the micro-batches: the rank with the sink gets all. All
/// ranks call it together.
std::string Remedies::write_shared_bundle(const Attempt& attempt, const OngoingStep& ongoing,
                                          std::int64_t number) const {
  Communicator& ranks = runner_.ranks();
  const std::string what = fmt::format("the repro bundle of step {}", attempt.step);
  const std::vector<std::uint8_t> mine = {repro_sink_ != nullptr};
  const std::vector<Bytes> sinks = ranks.gather(bytes_of(mine), what);
  const auto to = std::ranges::find_if(sinks, [](const Bytes& one) { return one[0] != std::byte{}; });
  if (to == sinks.end()) return "";
  StateDict own;
  agree(ranks, what, [&] {
    for (int i = ongoing.feed.first; i < ongoing.feed.first + ongoing.feed.count; ++i)
      own.merge(std::to_string(i), ongoing.feed.contents(i));
  });
  const StateDict all = collect_states(ranks, own, static_cast<int>(to - sinks.begin()), what);
  if (!repro_sink_) return "";
  const auto contents = [&all](int i) { return all.section(std::to_string(i)); };
  repro_sink_(attempt.step, number, make_repro_bundle(transaction_.state(), attempt, ongoing, number, contents));
  return "";
}

Attempt Remedies::replay(const Attempt& failed, const Variant& variant, OngoingStep& ongoing, TapeObserver* observer) {
  AttemptPlan plan = ongoing.plan;
  plan.loss_scale = variant.scale.value_or(failed.loss_scale);
  // With old weights the loss may differ from the recent losses.
  plan.any_loss = variant.earlier_weights && failed.cause != AbortCause::kSpike;
  for (const PrecisionPolicy::Override& promoted : variant.promote)
    plan.policy = plan.policy.with(promoted.glob, promoted.dtype);
  for (const std::int64_t sample : variant.without) plan.leave_out(ongoing.plan.original(sample));
  if (plan.micro_batches.empty()) return failed;
  if (variant.earlier_weights) return replay_with_earlier_weights(plan, ongoing, observer);
  return runner_.rehearse(plan, ongoing.feed, observer);
}

Attempt Remedies::replay_with_earlier_weights(const AttemptPlan& plan, OngoingStep& ongoing, TapeObserver* observer) {
  Attempt attempt;
  attempt.cause = AbortCause::kLoss;
  const std::int64_t steps = transaction_.counters().steps;
  transaction_.with_other_weights([&](const Transaction::PutWeights& put) {
    std::int64_t newest = steps;
    for (int tried = 0; tried < kMaxCheckpoints && !attempt.commits(); ++tried) {
      std::optional<RecoveryPoint> point = find_recovery_point_(newest,
                                                                transaction_.remediation().rollback_floor(steps));
      if (!point) break;
      newest = point->step - 1;
      put(point->state);
      attempt = runner_.rehearse(plan, ongoing.feed, observer);
      if (attempt.commits()) ongoing.recovery = std::move(point);
    }
  });
  return attempt;
}

bool Remedies::may_roll_back() const {
  return find_recovery_point_ && options_.on_nan == OnNan::kRemedy &&
         transaction_.remediation().may_roll_back(transaction_.counters().steps);
}

bool Remedies::earlier_weights_help(OngoingStep& ongoing) {
  return may_roll_back() && replay_with_earlier_weights(ongoing.plan, ongoing, nullptr).commits();
}

Diagnosis Remedies::investigate(const Attempt& attempt, OngoingStep& ongoing) {
  const AttemptPlan& plan = ongoing.plan;
  const std::int64_t samples = plan.samples_per_micro_batch;
  Experiments experiments{
      .batch = plan.left_out.empty() ? samples : 0,
      .stride = samples,
      .rows = ongoing.removable_samples(),
      .earlier_weights = may_roll_back(),
      .is_mixed = computes_in_halves(plan.policy),
      .on_gpu = transaction_.device() != Device::cpu(),
      .has_diverged = transaction_.warnings().has_diverged(),
      .damage =
          [&] {
            return find_damage(transaction_.model(), transaction_.optimizers(), transaction_.averages(), attempt.step);
          },
      .bad_gradient = [&] { return find_bad_gradient(attempt, transaction_.parameters()); },
      .bad_buffer = [&](const FirstBad& input) { return find_bad_buffer(transaction_.model(), input); }};
  // The rank that computed the bad micro-batch makes the diagnosis. If there is none, any rank could; rank 0 does.
  Diagnosis diagnosis = share_diagnosis(
      runner_.ranks(), std::max(attempt.bad_rank, 0),
      [&](const Variant& variant, TapeObserver* observer) { return replay(attempt, variant, ongoing, observer); },
      [&](const Replay& over_ranks) {
        experiments.run = over_ranks;
        return diagnose(attempt, experiments);
      });
  for (std::int64_t& sample : diagnosis.samples) sample = plan.original(sample);
  if (diagnosis.first_bad && diagnosis.first_bad->sample && samples > 0) {
    FirstBad& bad = *diagnosis.first_bad;
    bad.sample = plan.original(*bad.sample);
    const io::BatchOrigin* origin = ongoing.feed.origins[static_cast<std::size_t>(*bad.sample / samples)];
    // A micro-batch of a repro bundle may have fewer samples than the first micro-batch.
    if (origin != nullptr && *bad.sample % samples < std::ssize(origin->samples))
      bad.sample_id = origin->samples[static_cast<std::size_t>(*bad.sample % samples)];
  }
  return diagnosis;
}

// ---- remedies, the cheapest first ---------------------------------------------------------------

Next Remedies::apply_next(Incident& incident, const Attempt& attempt, OngoingStep& ongoing) {
  const Diagnosis& d = incident.diagnosis;
  bool remedy = options_.on_nan == OnNan::kRemedy;
  const bool skip = options_.on_nan != OnNan::kStop;
  std::int64_t incidents = 0;
  if (remedy) incidents = transaction_.count_incident();
  remedy = remedy && incidents <= options_.remediation.incidents;
  if (remedy && d.cause == CauseClass::kNotReproducible && incidents <= kMaxRepeats) {
    incident.remedy = {.action = RemedyAction::kNone, .what = "the step is retried", .verified = true};
    return Next::kRetry;
  }
  if (remedy && attempt.cause == AbortCause::kCorruption) {
    incident.remedy = {.action = RemedyAction::kStop,
                       .what = "nothing was committed: each time that the step was computed twice, the bits differed"};
    return Next::kStop;
  }
  if (remedy && quarantine_plans(incident)) return Next::kRetry;
  if (remedy && attempt.cause == AbortCause::kSpike) return handle_spike(incident, ongoing);
  if (remedy && (set_fitting_scale(incident, attempt, ongoing) || promote_ops(incident) ||
                 quarantine(incident, ongoing) || mend_averages(incident, attempt)))
    return Next::kRetry;
  if (skip && leave_out_micro_batch(incident, attempt, ongoing)) return Next::kRetry;
  // If the state is bad, every batch fails, so that skipping a batch does not help.
  const bool is_state = d.cause == CauseClass::kCorruptedState && d.confidence == Confidence::kProven;
  const bool by_state = is_state || d.earlier_weights;
  if (remedy && by_state && roll_back(incident, ongoing)) return Next::kReturn;
  if (skip && !by_state && skip_batch(incident)) return Next::kReturn;
  incident.remedy = {.action = RemedyAction::kStop, .what = "nothing was committed"};
  return Next::kStop;
}

/// If the loss scale is the cause, finds by bisection a scale without overflow and sets it. Needed if the scale is
/// fixed or was lowered too often.
bool Remedies::set_fitting_scale(Incident& incident, const Attempt& attempt, OngoingStep& ongoing) {
  if (incident.diagnosis.cause != CauseClass::kLossScaleOverflow) return false;
  double fits = 1, too_large = attempt.loss_scale;
  while (too_large / fits > 2) {
    const double middle = std::exp2(std::floor((std::log2(fits) + std::log2(too_large)) / 2));
    const Attempt tried = replay(attempt, {.scale = middle}, ongoing, nullptr);
    (tried.commits() || tried.cause == AbortCause::kSpike ? fits : too_large) = middle;
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

/// Lets Binade's own kernels compute what a library computed wrongly.
bool Remedies::quarantine_plans(Incident& incident) {
  if (!incident.diagnosis.library) return false;
  const LibraryFault& fault = *incident.diagnosis.library;
  const std::string problem = gpus::quarantine_plans(fault.keys);
  incident.remedy = {.action = RemedyAction::kQuarantinePlan,
                     .what = fmt::format("Binade's own kernels compute it instead of {}, on this machine from now on{}",
                                         fault.library,
                                         problem.empty() ? "" : ", in this process only (" + problem + ")"),
                     .target = fmt::format("{}", fmt::join(fault.plans, "; ")),
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

bool Remedies::quarantine(Incident& incident, OngoingStep& ongoing) {
  const std::vector<std::int64_t>& samples = incident.diagnosis.samples;
  if (samples.empty()) return false;
  const std::int64_t stride = ongoing.plan.samples_per_micro_batch;
  std::vector<std::int64_t> ids;
  for (const std::int64_t sample : samples) {
    const io::BatchOrigin& origin = *ongoing.feed.origins[static_cast<std::size_t>(sample / stride)];
    ids.push_back(origin.samples[static_cast<std::size_t>(sample % stride)]);
    transaction_.quarantine(ids.back());
  }
  for (const std::int64_t sample : samples) ongoing.plan.leave_out(sample);
  ongoing.nan_resolved();
  incident.remedy = {.action = RemedyAction::kQuarantineSample,
                     .what = fmt::format("sample{} {} of the data set left out, now and later",
                                         ids.size() == 1 ? "" : "s", listed(ids)),
                     .target = listed(ids),
                     .verified = true};
  return true;
}

/// Replaces averages that are not finite, from the newest checkpoint and the weights. They take no part in a step, so
/// that no committed step has to be repeated.
bool Remedies::mend_averages(Incident& incident, const Attempt& attempt) {
  if (attempt.cause != AbortCause::kAverages) return false;
  std::optional<RecoveryPoint> point;
  if (find_recovery_point_) point = find_recovery_point_(transaction_.counters().steps, -1);
  if (!transaction_.mend_averages(point ? &*point : nullptr)) return false;
  incident.remedy = {.action = RemedyAction::kMendAverages,
                     .what = point ? fmt::format("averages that were not finite are made again from {} and the weights",
                                                 point->name)
                                   : "averages that were not finite are made again from the weights",
                     .target = incident.diagnosis.first_bad ? incident.diagnosis.first_bad->tensor : "",
                     .verified = true};
  return true;
}

bool Remedies::leave_out_micro_batch(Incident& incident, const Attempt& attempt, OngoingStep& ongoing) {
  if (attempt.bad_micro_batch < 0 || ongoing.plan.micro_batches.size() < 2) return false;
  std::erase(ongoing.plan.micro_batches, attempt.bad_micro_batch);
  ongoing.micro_batches_left_out.push_back(attempt.bad_micro_batch);
  ongoing.nan_resolved();
  incident.remedy = {.action = RemedyAction::kSkipBatch,
                     .what = fmt::format("micro-batch {} is left out", attempt.bad_micro_batch),
                     .target = fmt::format("micro-batch {}", attempt.bad_micro_batch)};
  return true;
}

bool Remedies::skip_batch(Incident& incident) {
  if (transaction_.counters().skips >= options_.remediation.skips) return false;
  transaction_.count_skip();
  incident.remedy = {.action = RemedyAction::kSkipBatch, .what = "the batch is skipped", .steps_lost = 1};
  return true;
}

/// Skips the batch if it alone is to blame, or rolls back if the weights are. Otherwise accepts the loss: the spike
/// guard must not act unless a second measurement confirms it.
Next Remedies::handle_spike(Incident& incident, const OngoingStep& ongoing) {
  if (ongoing.spike == SpikeVerdict::kOfBatch && skip_batch(incident)) return Next::kReturn;
  if (ongoing.spike == SpikeVerdict::kOfRun && roll_back(incident, ongoing)) return Next::kReturn;
  transaction_.forget_spikes();
  incident.remedy = {.action = RemedyAction::kNone,
                     .what = "the loss is accepted: no other batch and no earlier weights have a better one"};
  return Next::kRetry;
}

/// Rolls back to a checkpoint whose weights made the step finite. If the state is to blame, the run repeats the steps
/// after the checkpoint. Otherwise it skips the batches of these steps, and lowers the learning rate for a while.
bool Remedies::roll_back(Incident& incident, const OngoingStep& ongoing) {
  const std::int64_t from = transaction_.counters().steps;
  if (!ongoing.recovery || !transaction_.remediation().may_roll_back(from)) return false;
  const RecoveryPoint& point = *ongoing.recovery;
  const bool state_to_blame = incident.diagnosis.cause == CauseClass::kCorruptedState;
  transaction_.roll_back_to(point, state_to_blame, ongoing.feed.origins.back());
  const std::int64_t steps = transaction_.counters().steps;
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
