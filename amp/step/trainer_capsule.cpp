#include <algorithm>
#include <bit>
#include <functional>

#include "binade/amp/step/trial.h"
#include "binade/core/error.h"
#include "binade/core/state_copy.h"
#include "binade/core/state_counts.h"

namespace binade::amp {
namespace {

constexpr std::int64_t kSchema = 1;
constexpr std::int64_t kMostIncidents = 2;  // of one step that get a capsule: those after them follow from these

/// What an attempt came to, bit for bit.
StateDict outcome_of(const StepState& state) {
  StateDict outcome;
  outcome.put("cause", static_cast<std::int64_t>(state.cause));
  outcome.put("loss_bits", std::bit_cast<std::int64_t>(state.loss));
  outcome.put("gradient_words", StateDict::Integers(state.scan.words.begin(), state.scan.words.end()));
  return outcome;
}

bool same(const StateDict& a, const StateDict& b) {
  return a.integer("cause") == b.integer("cause") && a.integer("loss_bits") == b.integer("loss_bits") &&
         a.integers("gradient_words") == b.integers("gradient_words");
}

}  // namespace

std::string Trainer::fill_capsule(const StepState& state, const Trial& trial, std::int64_t attempt) const {
  if (!capsule_sink_ || incidents_ >= kMostIncidents) return "";
  if (!trial.feed.contents)
    return "the type of the batch has no state(), so this attempt cannot be run again elsewhere; give it state() and "
           "from_state(), as io::TextBatch has";
  StateDict capsule = cloned(collect());
  capsule.put("capsule/schema", kSchema);
  capsule.put("capsule/step", state.step);
  capsule.put("capsule/attempt", attempt);
  capsule.put("capsule/loss_scale", trial.plan.scale);
  capsule.put("capsule/policy", trial.plan.policy.to_string());
  capsule.put("capsule/parts", StateDict::Integers(trial.plan.parts.begin(), trial.plan.parts.end()));
  capsule.put("capsule/rows_left_out", trial.plan.rows);
  capsule.put("capsule/micro_batches", static_cast<std::int64_t>(trial.feed.origins.size()));
  capsule.merge("capsule/outcome", outcome_of(state));
  for (std::size_t part = 0; part < trial.feed.origins.size(); ++part)
    capsule.merge(fmt::format("batch/{}", part), trial.feed.contents(static_cast<int>(part)));
  capsule_sink_(state.step, attempt, std::move(capsule));
  return "";
}

std::vector<StateDict> Trainer::load_capsule(const StateDict& capsule) {
  check<CheckpointError>(capsule.contains("capsule/schema"),
                         "replay: this is no capsule; an incident's folder holds one, capsule.h5");
  check<CheckpointError>(capsule.integer("capsule/schema") == kSchema,
                         "replay: the capsule has schema {}, this version reads {}", capsule.integer("capsule/schema"),
                         kSchema);
  const std::vector<std::string> changes = changes_since(capsule);
  check<CheckpointError>(changes.empty(), "replay: the run that wrote the capsule had other settings: {}; use its own",
                         changes.empty() ? "" : changes.front());
  load_state(capsule);
  std::vector<StateDict> parts;
  for (std::int64_t part = 0, count = read_count(capsule, "capsule/micro_batches", 1); part < count; ++part) {
    parts.push_back(capsule.section(fmt::format("batch/{}", part)));
    check<CheckpointError>(!parts.back().empty(), "replay: the capsule has {} micro-batches, but no batch/{}", count,
                           part);
  }
  return parts;
}

CapsuleReplay Trainer::run_capsule(const StateDict& capsule, const StepFeed& feed) {
  const StepContextScope context(runtime_.seed(), steps_ + 1);
  Trial trial(feed);
  const StateDict::Integers &parts = read_counts(capsule, "capsule/parts"),
                            &rows = read_counts(capsule, "capsule/rows_left_out");
  const std::int64_t count = std::ssize(feed.origins);
  check<CheckpointError>(!parts.empty() &&
                             std::ranges::all_of(parts, [&](std::int64_t part) { return part < count; }) &&
                             std::ranges::adjacent_find(rows, std::ranges::greater_equal()) == rows.end() &&
                             (rows.empty() || rows.back() < count * trial.plan.rows_per_part),
                         "replay: the capsule's lists of micro-batches and of rows left out name some that it has not");
  trial.plan.parts.assign(parts.begin(), parts.end());
  trial.plan.rows = rows;
  trial.plan.scale = capsule.number("capsule/loss_scale");
  trial.plan.policy = PrecisionPolicy::from_string(capsule.text("capsule/policy"));
  first_run_ = read_count(capsule, "capsule/attempt", 1) == 1;
  const StepState state = attempt(trial.plan, feed, nullptr);
  abandon();
  CapsuleReplay replay{.same_bits = same(outcome_of(state), capsule.section("capsule/outcome"))};
  replay.incident = {.step = state.step,
                     .attempt = read_count(capsule, "capsule/attempt", 1),
                     .what = describe(state, optimizer_.parameters())};
  if (!state.commits()) replay.incident.diagnosis = investigate(state, trial);
  replay.incident.remedy = {.action = RemedyAction::kNone, .what = "nothing: this is a replay"};
  return replay;
}

}  // namespace binade::amp
