// The crash laboratory: what a checkpoint promises, tried against power cuts, failing calls, kills and damage.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>

#include "tests/crash/lab.h"

namespace binade::crash {
namespace {

const std::vector<Experiment> kExperiments = {
    {"power-loss", "every state that a power cut may leave", power_loss},
    {"seeded-bugs", "each sync, rename, link and unlink left out in turn: power-loss must notice", seeded_bugs},
    {"failing-calls", "every call of the system that fails, once and from then on", failing_calls},
    {"damage", "single flipped bits and truncations of a checkpoint of 256 KiB", damage},
    {"kills", "SIGKILL at random instants and around every call that changes the disk", kills},
    {"stops", "SIGTERM at random instants", stops},
};

int usage() {
  std::printf("usage: crash_lab NAME [--seed N] [--cases M | --full]\n\n");
  for (const Experiment& e : kExperiments) std::printf("  %-14s %s\n", e.name, e.what);
  std::printf(
      "\n  --seed   what cases are drawn from (1)\n  --cases  how many; left out: a slice for every commit\n"
      "  --full   all of them\n");
  return 20;
}

bool parse(int argc, char** argv, Assignment& assignment) {
  for (int i = 2; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--full") {
      assignment.full = true;
      continue;
    }
    if ((flag != "--seed" && flag != "--cases") || i + 1 == argc) return false;
    std::uint64_t value = 0;
    const char* text = argv[++i];
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
    if (error != std::errc() || *end != '\0') return false;
    if (flag == "--seed")
      assignment.seed = value;
    else
      assignment.cases = static_cast<std::int64_t>(value);
  }
  return true;
}

int run(int argc, char** argv) {
  Assignment assignment;
  if (argc < 2 || !parse(argc, argv, assignment)) return usage();
  for (const Experiment& experiment : kExperiments) {
    if (std::strcmp(experiment.name, argv[1]) != 0) continue;
    const auto begin = std::chrono::steady_clock::now();
    Findings findings;
    experiment.run(assignment, findings);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    return findings.report(experiment.name, assignment, took.count()) ? 0 : 1;
  }
  return usage();
}

}  // namespace
}  // namespace binade::crash

int main(int argc, char** argv) {
  try {
    return binade::crash::run(argc, argv);
  } catch (const std::exception& error) {
    std::printf("the experiment could not be carried out: %s\n", error.what());
    return 1;
  }
}
