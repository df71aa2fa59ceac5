#include "tests/truth/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/truth/judge.h"

namespace binade::truth {

namespace {

constexpr std::int64_t kAfter = 40;  // committed steps between the fault and the comparison of losses

/// A training up to the step before the fault.
struct Run {
  Session session;
  std::string alarm{};

  Run(const Scenario& scenario, const SessionOptions& options, std::int64_t steps) : session(options) {
    Draw draw(derived(options.seed, "prepare"));
    scenario.prepare(session, draw);
    session.keep_recovery_point();
    for (std::int64_t i = 0; i < steps && alarm.empty(); ++i) {
      if (const auto outcome = session.train(1)) alarm = describe(*outcome);
      if (i % 3 == 2) session.keep_recovery_point();
    }
  }
};

SessionOptions options_of(const Scenario& scenario, const ModelEntry& model, const std::string& precision,
                          const std::string& way, std::uint64_t seed) {
  SessionOptions options{.model = model.name, .precision = precision, .way = way, .seed = seed};
  Draw draw(derived(seed, "configure"));
  scenario.configure(options, draw);
  return options;
}

/// Trains until `steps` steps are committed. If it fails, returns false and sets `how`.
bool train_to(Session& session, std::int64_t steps, std::string& how) {
  for (int i = 0; session.trainer().steps() < steps; ++i) {
    if (i > 4 * kAfter) {
      how = "no progress";
      return false;
    }
    if (const Outcome outcome = session.step(session.next()); !outcome.thrown.empty()) {
      how = outcome.thrown + ": " + outcome.error.substr(0, 120);
      return false;
    }
  }
  return true;
}

/// The run with which a run is compared after a correct remedy.
enum class Reference {
  kWithoutFault,    ///< the fault never happened
  kWithoutSamples,  ///< the samples that cause it were left out by hand
  kInFloat,         ///< the same fault in f32, which has no effect there
};

std::optional<double> loss_of(Reference reference, const Scenario& scenario, SessionOptions options, const Truth& truth,
                              std::int64_t steps, std::int64_t end) {
  if (scenario.from_the_start) options.loss_scale.reset();
  if (reference == Reference::kInFloat) options.precision = "fp32";
  Run run(scenario, options, steps);
  Batch batch = run.session.next();
  if (reference == Reference::kInFloat) {
    Draw draw(derived(options.seed, "strike"));
    scenario.strike(run.session, batch, draw);
  }
  if (reference == Reference::kWithoutSamples) {
    for (const std::int64_t row : truth.rows)
      run.session.loader().quarantine(batch.origin.samples[static_cast<std::size_t>(row)]);
    batch = batch.without(truth.rows);
  }
  std::string how;
  if (run.session.step(batch).alarmed() || !train_to(run.session, end, how)) return std::nullopt;
  return run.session.held_out();
}

void recover(const Scenario& scenario, SessionOptions options, const Truth& truth, std::int64_t steps, Record& record) {
  const std::int64_t end = steps + kAfter;
  double before = 0, harmed = 0;
  options.on_nan = amp::OnNan::kRemedy;
  {
    Run run(scenario, options, steps);
    before = run.session.held_out();
    Batch batch = run.session.next();
    Draw draw(derived(options.seed, "strike"));
    scenario.strike(run.session, batch, draw);
    const Outcome outcome = run.session.step(batch);
    if (const amp::Incident* incident = outcome.incident()) record.recovery = amp::name_of(incident->remedy.action);
    record.recovered = false;
    if (!outcome.thrown.empty()) {
      record.recovery += " " + outcome.thrown + ": " + outcome.error.substr(0, 120);
      return;
    }
    std::string how;
    if (!train_to(run.session, end, how)) {
      record.recovery += ", then " + how;
      return;
    }
    harmed = run.session.held_out();
  }
  record.recovery += fmt::format(", loss {:.5g}, unharmed", harmed);
  std::vector<Reference> references{Reference::kWithoutFault};
  if (!truth.rows.empty()) references.push_back(Reference::kWithoutSamples);
  if (truth.proof == Proof::kOverflow || truth.proof == Proof::kRounded) references.push_back(Reference::kInFloat);
  for (const Reference reference : references) {
    const std::optional<double> wanted = loss_of(reference, scenario, options, truth, steps, end);
    if (!wanted) continue;
    // Tolerance: 1 % of the loss, or of its decrease since the fault if that is larger.
    const double bound = 0.01 * std::max(std::abs(*wanted), std::abs(before - *wanted));
    record.recovered = *record.recovered || (std::isfinite(harmed) && harmed - *wanted <= bound);
    record.recovery += fmt::format(" {:.5g}", *wanted);
  }
}

}  // namespace

Record run_trial(const Scenario& scenario, const ModelEntry& model, const std::string& precision,
                 const std::string& way, std::uint64_t seed) {
  Record record{.family = scenario.family,
                .scenario = scenario.name,
                .model = model.name,
                .precision = precision,
                .way = way,
                .seed = seed};
  Draw draw(derived(seed, "step"));
  const std::int64_t steps = scenario.from_the_start ? 0 : 6 + draw.below(12);
  record.step = steps + 1;
  SessionOptions options = options_of(scenario, model, precision, way, seed);
  options.on_nan = amp::OnNan::kStop;
  Truth truth;
  {
    Run run(scenario, options, steps);
    record.early_alarm = run.alarm;
    if (!run.alarm.empty()) return record;
    Batch batch = run.session.next();
    Draw strike(derived(seed, "strike"));
    truth = scenario.strike(run.session, batch, strike);
    Findings findings;
    record.void_because = verify(run.session, batch, truth, findings);
    if (!record.void_because.empty()) return record;
    const auto before = run.session.state_bytes();
    const Outcome outcome = run.session.step(batch);
    record.state_same = run.session.state_bytes() == before;
    judge(outcome, batch, truth, findings, record);
  }
  if (truth.recovers) recover(scenario, options, truth, steps, record);
  return record;
}

namespace {

/// The places that a right warning about a silent fault names; empty if any warning is right. If the fault did not
/// occur, sets `why`.
std::vector<std::string> places_of(const SilentScenario& scenario, Session& session, std::string& why) {
  if (scenario.silence == Silence::kUpdate) return {};
  const Evidence e = examine(session.task(), session.held_out_batch(), session.policy(), 1);
  std::vector<std::string> places;
  if (!e.finite) why = "not finite";
  if (scenario.silence == Silence::kSwallowed) {
    if (!e.first)
      why = "no op overflows";
    else
      places.push_back("'" + e.first->op + "'" + (e.first->module.empty() ? "" : " in " + e.first->module));
    return places;
  }
  if (e.without_gradient.empty()) why = "every parameter has a gradient";
  for (const std::string& name : e.without_gradient) places.push_back(name.substr(0, name.rfind('.')));
  return places;
}

}  // namespace

SilentRecord run_silent(const SilentScenario& scenario, const ModelEntry& model, const std::string& precision,
                        std::uint64_t seed) {
  SilentRecord record{.scenario = scenario.name, .model = model.name, .precision = precision, .seed = seed};
  SessionOptions options{.model = model.name, .precision = precision, .seed = seed};
  Draw draw(derived(seed, "configure"));
  scenario.configure(options, draw);
  Session session(options);
  scenario.prepare(session, draw);
  const std::vector<std::string> places = places_of(scenario, session, record.void_because);
  if (!record.void_because.empty()) return record;
  const auto heard = [&](const std::string& text) {
    return places.empty() || std::any_of(places.begin(), places.end(), [&](const std::string& place) {
             return text.find(place) != std::string::npos;
           });
  };
  while (record.steps < scenario.steps && !record.warned) {
    ++record.steps;
    const Outcome outcome = session.step(session.next());
    for (const amp::StepResult& result : outcome.attempts) {
      for (const amp::Warning& warning : result.warnings) {
        record.said += fmt::format("[{}] {} ", amp::name_of(warning.kind),
                                   amp::location_of(warning) + ": " + warning.what);
        record.warned |= heard(amp::location_of(warning) + " " + warning.what + " " + warning.advice);
      }
      for (const std::string& note : result.notes) record.warned |= !places.empty() && heard(note);
    }
    if (outcome.alarmed()) record.said += "[incident] " + describe(outcome) + " ";
    if (!outcome.thrown.empty()) break;
  }
  return record;
}

}  // namespace binade::truth
