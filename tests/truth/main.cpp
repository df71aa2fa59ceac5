#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <random>

#include "tests/truth/summary.h"

/// truth_lab: plants faults for which the diagnosis was not designed into models from the literature, and compares
/// Binade's reports with the truth (docs/truth.md).
namespace binade::truth {

namespace {

struct Options {
  std::uint64_t seed = 0;
  std::int64_t scenarios = 400, silent = -1, clean_steps = 20000, steps_per_run = 400;
  std::string models, only, out, ways = "plain";
  double seconds = 0;  // 0: no limit
};

template <class S>
struct Planned {
  const S* scenario;
  const ModelEntry* model;
};

bool chosen(const Options& o, const std::string& text, const std::string& model) {
  return (o.models.empty() || ("," + o.models + ",").find("," + model + ",") != std::string::npos) &&
         (o.only.empty() || text.find(o.only) != std::string::npos);
}

template <class S>
std::vector<Planned<S>> plan_of(const std::vector<S>& list, const Options& o, Draw& draw) {
  std::vector<Planned<S>> plan;
  for (const S& s : list)
    for (const ModelEntry& m : models())
      if (s.fits(m) && chosen(o, s.family + " | " + s.name + " | " + m.name, m.name)) plan.push_back({&s, &m});
  for (std::size_t i = plan.size(); i > 1; --i)
    std::swap(plan[i - 1], plan[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(i)))]);
  return plan;
}

class Lab {
 public:
  explicit Lab(const Options& options) : o_(options), begun_(std::chrono::steady_clock::now()) {}

  Results run() {
    plant_faults();
    plant_silent_faults();
    train_cleanly();
    return std::move(results_);
  }

 private:
  bool time_left(double share) const {
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    return o_.seconds <= 0 || spent < share * o_.seconds;
  }
  std::uint64_t seed_of(std::size_t i) const {
    return o_.only.empty() ? derived(o_.seed, std::to_string(i)) >> 16
                           : (i == 0 ? o_.seed : derived(o_.seed, std::to_string(i)) >> 16);
  }

  /// Draws one of the ways of --ways that the model supports.
  std::string way_of(const ModelEntry& model, std::uint64_t seed) const {
    std::vector<std::string> fitting;
    for (const std::string& way : ways())
      if (("," + o_.ways + ",").find("," + way + ",") != std::string::npos && (way != "tied" || model.name == "gpt"))
        fitting.push_back(way);
    Draw draw(derived(seed, "way"));
    return fitting.empty() ? "plain" : draw.one_of(fitting);
  }
  /// Plants every fault in every model that fits, in random order, repeated with other seeds up to --scenarios.
  void plant_faults() {
    const std::vector<Scenario> list = scenarios();
    Draw draw(derived(o_.seed, "faults"));
    const auto plan = plan_of(list, o_, draw);
    std::printf("%zu faults in %zu models, %zu pairs\n", list.size(), models().size(), plan.size());
    for (std::size_t i = 0; !plan.empty() && i < static_cast<std::size_t>(o_.scenarios) && time_left(0.6); ++i) {
      const auto& [scenario, model] = plan[i % plan.size()];
      const std::uint64_t seed = seed_of(i);
      Draw precision(derived(seed, "precision"));
      const std::string& chosen_precision = precision.one_of(scenario->precisions);
      results_.trials.push_back(run_trial(*scenario, *model, chosen_precision, way_of(*model, seed), seed));
    }
  }
  void plant_silent_faults() {
    const std::vector<SilentScenario> list = silent_scenarios();
    Draw draw(derived(o_.seed, "silent"));
    const auto plan = plan_of(list, o_, draw);
    const auto count = static_cast<std::size_t>(o_.silent < 0 ? o_.scenarios / 6 : o_.silent);
    for (std::size_t i = 0; !plan.empty() && i < count && time_left(0.7); ++i) {
      const auto& [scenario, model] = plan[i % plan.size()];
      const std::uint64_t seed = seed_of(i);
      Draw precision(derived(seed, "precision"));
      results_.silent.push_back(run_silent(*scenario, *model, precision.one_of(scenario->precisions), seed));
    }
  }
  void train_cleanly() {
    static const std::vector<std::string> precisions{"fp32", "bf16", "fp16"};
    std::int64_t steps = 0;
    for (std::size_t i = 0; steps < o_.clean_steps && time_left(1); ++i) {
      const std::uint64_t seed = o_.only.empty() ? seed_of(i + 100'000) : o_.seed + i / models().size();
      Draw draw(derived(seed, "clean"));
      const ModelEntry& model = models()[i % models().size()];
      const std::string& kind = draw.one_of(clean_kinds());
      const std::string& precision = draw.one_of(precisions);
      if (!chosen(o_, "clean | " + kind + " | " + model.name, model.name)) {
        if (i > 10'000) break;
        continue;
      }
      results_.clean.push_back(
          run_clean(model, precision, kind, seed, std::min(o_.steps_per_run, o_.clean_steps - steps)));
      steps += results_.clean.back().steps;
    }
  }

  Options o_;
  std::chrono::steady_clock::time_point begun_;
  Results results_;
};

int run(int argc, char** argv) {
  Options o;
  o.seed = std::random_device{}();
  CLI::App app("Plants faults into models and compares the reports with the truth");
  app.add_option("--seed", o.seed, "of all random choices; left out: another one each time");
  app.add_option("--scenarios", o.scenarios, "faults to plant");
  app.add_option("--silent", o.silent, "defects without a bad number to plant; left out: a sixth of --scenarios");
  app.add_option("--models", o.models, "only these, separated by commas");
  app.add_option("--ways", o.ways,
                 "how programs run their steps, drawn among these, separated by commas: plain, micro-batches, threads, "
                 "recompute, phases, tied");
  app.add_option("--clean-steps", o.clean_steps, "steps of healthy trainings");
  app.add_option("--steps-per-run", o.steps_per_run, "steps of one healthy training");
  app.add_option("--only", o.only,
                 "only faults whose 'family | name | model' contains this; the first one takes --seed itself");
  app.add_option("--out", o.out, "file for JSON lines");
  app.add_option("--seconds", o.seconds, "plan no more work after so many seconds");
  CLI11_PARSE(app, argc, argv);

  std::printf("seed %llu\n", static_cast<unsigned long long>(o.seed));
  const Results results = Lab(o).run();
  std::fputs(failures_of(results).c_str(), stdout);
  std::printf("\n%s", table_of(results).c_str());
  if (!o.out.empty()) std::ofstream(o.out) << json_lines(results);
  // This guarantee has no tolerance: an abort never changes the state.
  const auto broken = [](const Record& r) { return r.valid() && r.aborted && !r.state_same; };
  return std::any_of(results.trials.begin(), results.trials.end(), broken) ? 1 : 0;
}

}  // namespace

}  // namespace binade::truth

int main(int argc, char** argv) { return binade::truth::run(argc, argv); }
