// The resume matrix: a run that is interrupted anywhere and resumed ends with the bits of an uninterrupted run.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "tests/resume/matrix.h"

namespace binade::resume {
namespace {

const std::vector<lab::Experiment> kExperiments = {
    {"cells", "runs that are cut and resumed, beside runs that are not", cut_and_resumed},
    {"threads", "1, 2, 4 and 8 threads, and saving after every step: the same bits", threads_and_saves},
    {"forgetful", "each part of the state left out of what is restored: it must be noticed", forgetful},
};

/// Suppresses the messages of the runs.
void silence_stderr() {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(nowhere, STDERR_FILENO);
  ::close(nowhere);
}

int run(int argc, char** argv) {
  CLI::App app("Resumes runs that were cut, and compares what they end in bit for bit");
  Assignment assignment;
  bool show_messages = false;
  app.add_option("--seed", assignment.seed, "what plans and cuts are drawn from")->capture_default_str();
  app.add_option("--cases", assignment.cases, "how many; left out: a slice for every commit");
  app.add_flag("--full", assignment.full, "all of them");
  app.add_flag("--talk", show_messages, "let runs say what they have to say");
  app.require_subcommand(1);
  app.fallthrough();
  for (const lab::Experiment& e : kExperiments) app.add_subcommand(e.name, e.what);
  CLI11_PARSE(app, argc, argv);
  if (!show_messages) silence_stderr();
  const std::string name = app.get_subcommands().front()->get_name();
  const auto chosen = std::ranges::find_if(kExperiments, [&](const auto& e) { return name == e.name; });
  const auto begin = std::chrono::steady_clock::now();
  Findings findings;
  chosen->run(assignment, findings);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return findings.report(name, assignment, took.count()) ? 0 : 1;
}

}  // namespace
}  // namespace binade::resume

int main(int argc, char** argv) {
  try {
    return binade::resume::run(argc, argv);
  } catch (const std::exception& error) {
    std::printf("the experiment could not be carried out: %s\n", error.what());
    return 1;
  }
}
