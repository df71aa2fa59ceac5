// crash_lab tests the promises of checkpoints (docs/checkpoints.md) against power cuts, failing calls and allocations,
// kills and damage.
#include <CLI/CLI.hpp>
#include <chrono>

#include "binade/run/command_line.h"
#include "tests/crash/experiments.h"

namespace binade::crash {
namespace {

const std::vector<Experiment> kExperiments = {
    {"power-loss", "every state that a power cut may leave", power_loss},
    {"seeded-bugs", "each sync, rename, link and unlink left out in turn: power-loss must notice", seeded_bugs},
    {"failing-calls", "every call of the system that fails, once and from then on", failing_calls},
    {"failing-allocations", "every allocation that fails, once and from then on", failing_allocations},
    {"damage", "single flipped bits and truncations of a checkpoint of 256 KiB", damage},
    {"kills", "SIGKILL at random instants and around every call that changes the disk", kills},
    {"stops", "SIGTERM at random instants", stops},
};

int run(const Experiment& experiment, const Assignment& assignment) {
  const auto begin = std::chrono::steady_clock::now();
  Findings findings;
  experiment.run(assignment, findings);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return findings.report(experiment.name, assignment, took.count()) ? 0 : 1;
}

}  // namespace
}  // namespace binade::crash

int main(int argc, char** argv) {
  using namespace binade;
  CLI::App app("Tries what a checkpoint promises. Prints what it counted; exit 1 when something is wrong or too few.",
               "crash_lab");
  app.require_subcommand(1);
  crash::Assignment assignment;
  for (const crash::Experiment& experiment : crash::kExperiments) {
    CLI::App* command = app.add_subcommand(experiment.name, experiment.what);
    command->add_option("--seed", assignment.seed, "what cases are drawn from")->capture_default_str();
    CLI::Option* cases = command
                             ->add_option("--cases", assignment.cases, "how many; left out: a slice for every commit")
                             ->check(CLI::PositiveNumber);
    command->add_flag("--full", assignment.full, "all of them")->excludes(cases);
    if (std::string_view(experiment.name) == "power-loss")
      command->add_option("--story", assignment.story, "one story alone, as a violation names it")
          ->check(CLI::PositiveNumber);
  }
  return amp::run_command_line(app, argc, argv, [&] {
    const std::string name = app.get_subcommands().front()->get_name();
    return crash::run(*std::ranges::find(crash::kExperiments, name, &crash::Experiment::name), assignment);
  });
}
