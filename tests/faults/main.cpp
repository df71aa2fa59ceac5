// Plants faults in small models and compares the diagnosis with the ground truth (docs/faults.md).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>

#include "binade/run/command_line.h"
#include "tests/faults/table.h"

namespace binade::faults {
namespace {

struct Flags {
  std::uint64_t seed = std::random_device{}();
  std::int64_t cases = 0;  // 0: one of each family
  std::string family, json;
  bool list = false;
};

int run(const Flags& flags) {
  const std::vector<Family> families = all_families();
  const auto count = flags.cases > 0 ? flags.cases : static_cast<std::int64_t>(families.size());
  const std::vector<Case> cases = draw_cases(families, flags.seed, count, flags.family);
  std::printf("seed %llu, %zu families, %zu cases\n\n", static_cast<unsigned long long>(flags.seed), families.size(),
              cases.size());
  if (flags.list) {
    for (const Case& c : cases)
      std::printf("%-12s %-42s %s\n", c.family->theme, c.family->name, c.spot.to_string().c_str());
    return 0;
  }
  Controls controls;
  std::vector<Score> scores;
  for (const Case& c : cases) scores.push_back(judge(c, controls));
  std::fputs(text_table(scores).c_str(), stdout);
  if (!flags.json.empty()) {
    std::ofstream file(flags.json);
    file << json_table(scores, flags.seed);
    check<ArgumentError>(file.good(), "faults: cannot write {}", flags.json);
  }
  return 0;
}

}  // namespace
}  // namespace binade::faults

int main(int argc, char** argv) {
  using namespace binade;
  CLI::App app("Plants faults in small models and judges what the diagnosis says about them.", "faults");
  faults::Flags flags;
  app.add_option("--seed", flags.seed, "what cases are drawn from; left out: another one each time, printed");
  app.add_option("--cases", flags.cases, "how many; left out: one of each family")->check(CLI::PositiveNumber);
  app.add_option("--family", flags.family, "only families whose name holds this");
  app.add_option("--json", flags.json, "a file for every case with its card and what was found");
  app.add_flag("--list", flags.list, "print the cases and run none");
  return amp::run_command_line(app, argc, argv, [&] { return faults::run(flags); });
}
