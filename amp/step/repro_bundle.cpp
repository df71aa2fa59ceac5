#include "binade/amp/step/repro_bundle.h"

#include "binade/amp/step/attempt.h"
#include "binade/amp/step/remedies.h"
#include "binade/amp/step/transaction.h"
#include "binade/core/state_copy.h"
#include "binade/core/state_counts.h"
#include "binade/io/checkpoint/sections.h"

namespace binade::amp {
namespace {

const io::CheckpointSection kSections[] = {"batch", "capsule"};

constexpr std::int64_t kSchema = 1;

StateDict outcome_of(const Attempt& attempt) {
  StateDict outcome;
  outcome.put("cause", static_cast<std::int64_t>(attempt.cause));
  outcome.put("loss_bits", std::bit_cast<std::int64_t>(attempt.loss));
  outcome.put("gradient_words", StateDict::Integers(attempt.scan.words.begin(), attempt.scan.words.end()));
  return outcome;
}

/// Returns the number of the failed attempt at its step.
std::int64_t attempt_number_of(const StateDict& bundle) { return read_count(bundle, "capsule/attempt", 1); }

/// Sets the plan of `ongoing` to that of the failed attempt.
void read_plan(const StateDict& bundle, OngoingStep& ongoing) {
  const StateDict::Integers &micro_batches = read_counts(bundle, "capsule/parts"),
                            &left_out = read_counts(bundle, "capsule/rows_left_out");
  const std::int64_t count = std::ssize(ongoing.feed.origins);
  AttemptPlan& plan = ongoing.plan;
  check<CheckpointError>(!micro_batches.empty() &&
                             std::ranges::all_of(micro_batches, [&](std::int64_t i) { return i < count; }) &&
                             std::ranges::adjacent_find(left_out, std::ranges::greater_equal()) == left_out.end() &&
                             (left_out.empty() || left_out.back() < count * plan.samples_per_micro_batch),
                         "replay: the repro bundle lists micro-batches or samples that it does not hold");
  plan.micro_batches.assign(micro_batches.begin(), micro_batches.end());
  plan.left_out = left_out;
  plan.loss_scale = bundle.number("capsule/loss_scale");
  plan.policy = PrecisionPolicy::from_string(bundle.text("capsule/policy"));
  plan.first = attempt_number_of(bundle) == 1;
}

/// True if `attempt` has the recorded result, bit for bit.
bool same_bits(const Attempt& attempt, const StateDict& bundle) {
  const StateDict a = outcome_of(attempt), b = bundle.section("capsule/outcome");
  // If the bad micro-batch has no gradients, the words are those of an earlier micro-batch, which another rank may have
  // computed.
  const bool has_gradients = attempt.cause != AbortCause::kLoss && attempt.cause != AbortCause::kStatistics &&
                             attempt.cause != AbortCause::kBadData;
  return a.integer("cause") == b.integer("cause") && a.integer("loss_bits") == b.integer("loss_bits") &&
         (!has_gradients || a.integers("gradient_words") == b.integers("gradient_words"));
}

}  // namespace

StateDict make_repro_bundle(StateDict state, const Attempt& attempt, const OngoingStep& ongoing, std::int64_t number,
                            const std::function<StateDict(int micro_batch)>& contents) {
  StateDict bundle = cloned(state);
  const AttemptPlan& plan = ongoing.plan;
  bundle.put("capsule/schema", kSchema);
  bundle.put("capsule/step", attempt.step);
  bundle.put("capsule/attempt", number);
  bundle.put("capsule/loss_scale", plan.loss_scale);
  bundle.put("capsule/policy", plan.policy.to_string());
  bundle.put("capsule/parts", StateDict::Integers(plan.micro_batches.begin(), plan.micro_batches.end()));
  bundle.put("capsule/rows_left_out", plan.left_out);
  bundle.put("capsule/micro_batches", static_cast<std::int64_t>(ongoing.feed.origins.size()));
  bundle.merge("capsule/outcome", outcome_of(attempt));
  for (std::size_t i = 0; i < ongoing.feed.origins.size(); ++i)
    bundle.merge(fmt::format("batch/{}", i), contents(static_cast<int>(i)));
  return bundle;
}

void check_repro_bundle(const StateDict& bundle,
                        const std::function<std::vector<std::string>(const StateDict& state)>& changes_since) {
  check<CheckpointError>(bundle.contains("capsule/schema"),
                         "replay: this is no repro bundle; an incident's folder holds one, capsule.h5");
  check<CheckpointError>(bundle.integer("capsule/schema") == kSchema,
                         "replay: the repro bundle has schema {}, this version reads {}",
                         bundle.integer("capsule/schema"), kSchema);
  const std::vector<std::string> changes = changes_since(bundle);
  check<CheckpointError>(changes.empty(),
                         "replay: the run that wrote the repro bundle had other settings: {}; use those",
                         changes.empty() ? "" : changes.front());
}

std::vector<StateDict> micro_batches_of(const StateDict& bundle) {
  std::vector<StateDict> micro_batches;
  for (std::int64_t i = 0, count = read_count(bundle, "capsule/micro_batches", 1); i < count; ++i) {
    micro_batches.push_back(bundle.section(fmt::format("batch/{}", i)));
    check<CheckpointError>(!micro_batches.back().empty(),
                           "replay: the repro bundle has {} micro-batches, but no batch/{}", count, i);
  }
  return micro_batches;
}

ReproReplay replay_bundle(const StateDict& bundle, OngoingStep& ongoing, const Transaction& transaction,
                          AttemptRunner& runner, Remedies& remedies) {
  read_plan(bundle, ongoing);
  const Attempt attempt = runner.rehearse(ongoing.plan, ongoing.feed);
  ongoing.plan.first = false;
  ReproReplay replay{.same_bits = same_bits(attempt, bundle)};
  replay.incident = {
      .step = attempt.step, .attempt = attempt_number_of(bundle), .what = describe(attempt, transaction.parameters())};
  if (!attempt.commits()) replay.incident.diagnosis = remedies.investigate(attempt, ongoing);
  replay.incident.remedy = {.action = RemedyAction::kNone, .what = "nothing: this is a replay"};
  return replay;
}

}  // namespace binade::amp
