#include "tests/resume/matrix.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "binade/amp/step/remediation_policy.h"
#include "binade/io/checkpoint/store.h"
#include "tests/resume/run.h"

namespace binade::resume {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kCutsOfAPlan = 5;

/// Runs the plan without interruption, on one thread, with a checkpoint only at the end. If no remedy works against the
/// plan's fault, removes the fault from the plan and runs it again.
Outcome uninterrupted(Plan& plan, const lab::Scratch& scratch) {
  const std::string folder = scratch.fresh("run");
  try {
    run_session(plan, {}, folder);
  } catch (const NumericError&) {
    check<ArgumentError>(plan.fault != Fault::kNone, "a run stopped by itself: {}", plan.to_string());
    plan.fault = Fault::kNone;
    return uninterrupted(plan, scratch);
  }
  return outcome_of(plan, folder);
}

/// Counts the conditions under which runs were resumed, such as a quarantine or a promotion.
struct Coverage {
  std::map<std::string, std::int64_t> cuts;

  void record(const StateDict& state) {
    const auto seen = [&](const char* what, bool is) { cuts[what] += is ? 1 : 0; };
    const std::int64_t step = state.integer("rng/step");
    amp::RemediationPolicy ladder;
    ladder.load_state(state.section("amp/ladder"));
    seen("inside an epoch", state.integer("data/position") > 0);
    seen("with samples in quarantine", !state.integers("data/quarantine").empty());
    seen("after attempts that were not committed", state.integer("progress/skipped_total") > 0);
    seen("with an op promoted to f32",
         std::ranges::any_of(ladder.promotions(), [&](const auto& p) { return p.active && p.until > step; }));
    seen("while a loss scale grew back after overflows",
         state.integer("amp/scaler/overflows") > 0 && state.integer("amp/scaler/clean") > 0);
    seen("with headroom that does not count yet", !state.numbers("amp/scaler/waiting").empty());
  }
};

std::optional<StateDict> newest_state(const std::string& folder) {
  try {
    return io::find_newest_checkpoint(folder + "/checkpoints").state;
  } catch (const NoCheckpointError&) {
    return std::nullopt;
  }
}

bool has_ended(const Plan& plan, const std::string& folder) {
  return fs::exists(folder + "/checkpoints/" + io::checkpoint_file_name(plan.steps));
}

std::string describe(const Plan& plan, const std::vector<Session>& sessions) {
  std::string text = plan.to_string();
  for (const Session& session : sessions) text += "; " + session.to_string();
  return text;
}

/// Runs the sessions in order. Returns the difference between the result and `control` as text; empty: none.
std::string cell(const Plan& plan, const std::vector<Session>& sessions, const Outcome& control,
                 const lab::Scratch& scratch, Coverage& coverage, std::int64_t& cuts) {
  const std::string folder = scratch.fresh("run");
  try {
    for (const Session& session : sessions) {
      run_session(plan, session, folder);
      if (session.calls < 0 || has_ended(plan, folder)) continue;
      ++cuts;
      if (const std::optional<StateDict> state = newest_state(folder)) coverage.record(*state);
    }
    return difference(control, outcome_of(plan, folder));
  } catch (const Error& error) {
    return error.what();
  }
}

/// All plans in random order, so that the first few cover several families, precisions and optimizers.
std::vector<Plan> shuffled_plans(std::uint64_t seed) {
  std::vector<Plan> plans = draw_plans(seed);
  Draws draws(seed);
  for (std::size_t i = plans.size(); i > 1; --i) std::swap(plans[i - 1], plans[draws.below(i)]);
  return plans;
}

std::int64_t cells_of(const Assignment& assignment, std::int64_t slice, std::int64_t all) {
  if (assignment.cases > 0) return std::min(assignment.cases, all);
  return assignment.full ? all : slice;
}

}  // namespace

void cut_and_resumed(const Assignment& assignment, Findings& findings) {
  std::vector<Plan> plans = shuffled_plans(assignment.seed);
  const auto combinations = static_cast<std::int64_t>(plans.size());
  const std::int64_t wanted = cells_of(assignment, combinations, kCutsOfAPlan * combinations);
  const lab::Scratch scratch;
  Coverage coverage;
  std::int64_t cells = 0, cuts = 0, aborted = 0;
  for (std::int64_t i = 0; i < combinations && cells < wanted; ++i) {
    Plan& plan = plans[static_cast<std::size_t>(i)];
    const Outcome control = uninterrupted(plan, scratch);
    if (control.metrics.find("\"committed\":false") != std::string::npos) ++aborted;
    Draws draws(assignment.seed * 1'000'003 + static_cast<std::uint64_t>(i));
    const std::int64_t here = wanted / combinations + (i < wanted % combinations ? 1 : 0);
    for (std::int64_t k = 0; k < here; ++k, ++cells) {
      const std::vector<Session> sessions = draw_sessions(plan, draws);
      if (const std::string wrong = cell(plan, sessions, control, scratch, coverage, cuts); !wrong.empty())
        findings.violation(describe(plan, sessions) + ": " + wrong);
    }
  }
  findings.count("runs that were cut nowhere, to compare with", std::min(combinations, wanted));
  findings.count_at_least("of them with attempts that could not be committed", aborted,
                          std::min(combinations, wanted) / 3);
  findings.count_at_least("cuts, each resumed in objects of its own", cuts, wanted);
  for (const auto& [what, n] : coverage.cuts) findings.count_at_least("of them " + what, n, wanted / 40);
  findings.count_at_least("cells, each compared bit for bit in its whole state and log", cells, wanted);
}

void threads_and_saves(const Assignment& assignment, Findings& findings) {
  std::vector<Plan> plans = shuffled_plans(assignment.seed);
  const std::int64_t wanted = cells_of(assignment, 8, static_cast<std::int64_t>(plans.size()));
  const lab::Scratch scratch;
  std::int64_t runs = 0;
  for (std::int64_t i = 0; i < wanted; ++i) {
    Plan& plan = plans[static_cast<std::size_t>(i)];
    const Outcome control = uninterrupted(plan, scratch);
    for (const Session& session :
         {Session{.threads = 2}, Session{.threads = 4}, Session{.threads = 8}, Session{.checkpoint_every = 1},
          Session{.threads = 2, .checkpoint_every = 1, .keep = 1, .prefetch = 0}}) {
      const std::string folder = scratch.fresh("run");
      run_session(plan, session, folder);
      ++runs;
      if (const std::string wrong = difference(control, outcome_of(plan, folder)); !wrong.empty())
        findings.violation(describe(plan, {session}) + ": " + wrong);
    }
  }
  findings.count_at_least("runs with other threads or another interval between saves, the same bits", runs, 5 * wanted);
}

namespace {

/// Parts of the state: prefixes of the names of entries.
constexpr const char* kParts[] = {"model/",
                                  "norm/",
                                  "optim/moment1",
                                  "optim/moment2",
                                  "optim/updates",
                                  "optim/parameter_updates",
                                  "optim/ema/average",
                                  "optim/ema/updates",
                                  "amp/scaler/",
                                  "amp/signs/",
                                  "amp/spikes/",
                                  "amp/ladder/",
                                  "sched/",
                                  "rng/step",
                                  "data/epoch",
                                  "data/position",
                                  "data/quarantine",
                                  "progress/skipped_total",
                                  "progress/metrics_bytes"};

/// Replaces a part of the newest checkpoint by its initial values, as if a resume did not restore it. Returns false if
/// that changes nothing.
bool reset_part(const std::string& part, const Plan& plan, const std::string& folder) {
  const io::LoadedCheckpoint newest = io::find_newest_checkpoint(folder + "/checkpoints");
  const StateDict initial = initial_state(plan);
  StateDict state;
  bool changed = false;
  for (const auto& [name, value] : newest.state.values()) {
    if (!name.starts_with(part)) {
      state.put(name, value);
      continue;
    }
    const StateDict::Value then = initial.contains(name) ? initial.values().at(name)
                                                         : StateDict::Value(std::int64_t{0});
    changed = changed || !same_value(value, then);
    state.put(name, then);
  }
  if (!changed) return false;
  const std::string checkpoints = folder + "/checkpoints";
  fs::remove_all(checkpoints);
  fs::create_directory(checkpoints);
  io::CheckpointStore(checkpoints).save({.step = newest.step, .state = state, .state_hash = amp::state_hash(state)});
  return true;
}

}  // namespace

void forgetful(const Assignment& assignment, Findings& findings) {
  std::vector<Plan> plans = shuffled_plans(assignment.seed);
  const std::int64_t wanted = cells_of(assignment, 1, 12);  // number of cells for each part of the state
  const lab::Scratch scratch;
  std::int64_t caught = 0;
  for (const std::string part : kParts) {
    std::int64_t tried = 0;
    for (std::size_t i = 0; i < plans.size() && tried < wanted; ++i) {
      Plan& plan = plans[i];
      const Outcome control = uninterrupted(plan, scratch);
      const std::string folder = scratch.fresh("run");
      run_session(plan, {.cut = Cut::kSignal, .calls = plan.steps / 2}, folder);
      if (!reset_part(part, plan, folder)) continue;
      ++tried;
      std::string noticed;
      try {
        run_session(plan, {}, folder);
        noticed = difference(control, outcome_of(plan, folder));
      } catch (const Error& error) {
        noticed = error.what();
      }
      if (noticed.empty())
        findings.violation(fmt::format("{} was not restored, and nothing shows it: {}", part, plan.to_string()));
      else
        ++caught;
    }
    if (tried < wanted) findings.violation(fmt::format("{}: only {} of {} runs have it", part, tried, wanted));
  }
  findings.count("parts of the state", static_cast<std::int64_t>(std::size(kParts)));
  findings.count_at_least("resumes that did not restore one of them, and were caught", caught,
                          wanted * static_cast<std::int64_t>(std::size(kParts)));
}

}  // namespace binade::resume
