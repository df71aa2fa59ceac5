#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/report.h"

namespace CLI {
class App;
}

namespace binade::fuzz {

/// What is tested: a reader of files, an op, a module.
struct Subject {
  std::string name{}, what{};
  std::uint64_t inputs = 0;  ///< its share of the campaign's inputs
  /// Generates input `index`, runs the subject on it and records the outcome in the tally. Returns the subject's answer
  /// as text.
  std::function<std::string(std::uint64_t index, Tally&)> judge{};
};

/// Options that the command lines of fuzz and fuzz_ops share.
struct Campaign {
  std::string program{};       ///< "fuzz"
  std::string only_flag{};     ///< the flag that names one subject: "--target"
  std::string only{}, json{};  ///< empty: every subject; no file
  std::uint64_t seed = 1, count = 100'000, floor = 0, reasons = 0, jobs = 1;
  double seconds = 0;
  std::optional<std::uint64_t> input{};
  bool list = false;
};

void declare(CLI::App& app, Campaign& campaign);

/// The subjects that the command line selects. Throws ArgumentError if there is none of that name.
std::vector<Subject> chosen(const Campaign& campaign, std::vector<Subject> subjects);

/// As the command line says, lists the subjects, replays one input, or runs every subject on its inputs, and prints the
/// outcome. With N jobs, each is a process that takes every N-th input; `prepare` is called once in each before its
/// first. Returns the program's exit code: 1 after a failure, or if there were fewer inputs than the floor.
int run(
    const Campaign& campaign, const std::vector<Subject>& subjects, const std::function<void()>& prepare = [] {});

}  // namespace binade::fuzz
