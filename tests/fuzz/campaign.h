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

/// What inputs are given to: a reader of files, an op, a module.
struct Subject {
  std::string name{}, what{};
  std::uint64_t inputs = 0;  ///< its share of the campaign's
  /// Makes input `index`, gives it to the subject and writes down in the tally what it came to. Returns the words of
  /// the answer.
  std::function<std::string(std::uint64_t index, Tally&)> judge{};
};

/// What the command lines of fuzz and fuzz_ops have in common.
struct Campaign {
  std::string program{};       ///< "fuzz"
  std::string only_flag{};     ///< "--target"; names one subject
  std::string only{}, json{};  ///< empty: all of them; no file
  std::uint64_t seed = 1, count = 100'000, floor = 0, reasons = 0, jobs = 1;
  double seconds = 0;
  std::optional<std::uint64_t> input{};
  bool list = false;
};

void declare(CLI::App& app, Campaign& campaign);

/// The subjects that the command line means. Throws ArgumentError when there is none of that name.
std::vector<Subject> chosen(const Campaign& campaign, std::vector<Subject> subjects);

/// Lists the subjects, replays one input, or gives each its inputs, as the command line says, and prints what it came
/// to. With several jobs, each is a process that takes every so-manieth input; `prepare` is called once in each before
/// its first. Returns the program's exit code: 1 after a failure, or when there were fewer inputs than the floor.
int run(
    const Campaign& campaign, const std::vector<Subject>& subjects, const std::function<void()>& prepare = [] {});

}  // namespace binade::fuzz
