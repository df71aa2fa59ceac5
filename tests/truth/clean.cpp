#include "tests/truth/clean.h"

#include <fmt/format.h>

#include "tests/truth/judge.h"

namespace binade::truth {

namespace {

void note_alarms(const Outcome& outcome, std::int64_t step, CleanRecord& record) {
  const auto note = [&](const std::string& what) { record.alarms.push_back(fmt::format("step {}: {}", step, what)); };
  if (!outcome.thrown.empty()) note(outcome.thrown + ": " + outcome.error.substr(0, 160));
  for (const amp::StepResult& result : outcome.attempts) {
    if (result.incident)
      note(fmt::format("incident: {}, {}; remedy {}", result.incident->what,
                       amp::name_of(result.incident->diagnosis.cause), amp::name_of(result.incident->remedy.action)));
    for (const amp::Warning& warning : result.warnings)
      note(fmt::format("warning {}: {}: {}", amp::name_of(warning.kind), amp::location_of(warning), warning.what));
    if (!result.incident && (!result.left_out.empty() || !result.samples_left_out.empty())) note("samples left out");
  }
}

}  // namespace

const std::vector<std::string>& clean_kinds() {
  static const std::vector<std::string> kinds{"plain", "schedule", "curriculum", "lengths", "sgd", "clipped"};
  return kinds;
}

CleanRecord run_clean(const ModelEntry& model, const std::string& precision, const std::string& kind,
                      std::uint64_t seed, std::int64_t steps) {
  CleanRecord record{.model = model.name, .precision = precision, .kind = kind, .seed = seed};
  SessionOptions options{.model = model.name, .precision = precision, .seed = seed, .samples = 256};
  if (kind == "clipped") options.clip_norm = 1;
  if (kind == "sgd") {
    options.sgd = true;
    options.lr = 0.03;
  }
  if (kind == "schedule")
    options.schedule = optim::Schedule::cosine(model.lr, steps / 2 + 1, model.lr / 50, steps / 20);
  if (kind == "lengths") options.batch = 24;
  Session session(options);
  Draw draw(derived(seed, "clean"));
  for (std::int64_t step = 1; step <= steps; ++step) {
    Batch batch = session.next();
    if (kind == "lengths") {
      std::vector<std::int64_t> out;
      const std::int64_t kept = 2 + draw.below(batch.samples() - 2);
      for (std::int64_t row = kept; row < batch.samples(); ++row) out.push_back(row);
      batch = batch.without(out);
    }
    if (kind == "curriculum" && step > steps / 2 && !model.input.empty())
      for (std::int64_t row = 0; row < batch.samples(); ++row) scale_sample(batch, model.input, row, 2.5);
    const bool healthy = precision != "fp16" || examine(session.task(), batch, session.policy(), 1).finite;
    const Outcome outcome = session.step(batch);
    record.steps = step;
    // The larger inputs may overflow an fp16 model. Then the alarm is right, and only the steps up to here count.
    if (!healthy && outcome.alarmed()) break;
    note_alarms(outcome, step, record);
    if (outcome.thrown == "NumericError") break;
  }
  return record;
}

}  // namespace binade::truth
