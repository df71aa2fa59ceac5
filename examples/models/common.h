#pragma once

#include <binade.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

/// Shared by the programs of examples/models: the command line, the training steps, which are timed, and the numbers
/// that a program prints. pytorch/common.py is the same for PyTorch.
namespace models {

/// Prints "metric NAME VALUE", a line that tests/programs/models_test.py and compare.py read.
inline void metric(const std::string& name, double value) { std::printf("metric %s %.6g\n", name.c_str(), value); }

/// The command line of a program: whole numbers with defaults, `--steps`, `--seed` and `--threads` among them, and
/// `--policy fp32|bf16|fp16`.
///
///     const models::Arguments args(argc, argv, {{"steps", 200}, {"width", 16}});
///     Runtime runtime(args.runtime());
///     for (const std::int64_t step : args.steps()) …
///     nn::Linear layer({.in = args["width"], .out = 10});
class Arguments {
 public:
  /// `numbers` are the flags of the program with their defaults. Exits with code 2 and a message if the command line is
  /// wrong, and with code 0 after `--help`.
  Arguments(int argc, char** argv, std::map<std::string, std::int64_t> numbers) : numbers_(std::move(numbers)) {
    numbers_.insert({{"steps", 100}, {"seed", 1}, {"threads", 1}});
    for (int i = 1; i < argc; i += 2) {
      const std::string flag = argv[i], name = flag.substr(std::min<std::size_t>(2, flag.size()));
      if (flag == "--help") finish(0, "");
      if (flag.substr(0, 2) != "--" || (name != "policy" && !numbers_.contains(name))) finish(2, "no flag " + flag);
      if (i + 1 == argc) finish(2, flag + " wants a value");
      if (name == "policy")
        policy_ = policy_of(argv[i + 1]);
      else
        numbers_[name] = number_of(flag, argv[i + 1]);
    }
  }

  std::int64_t operator[](const std::string& name) const { return numbers_.at(name); }
  binade::RuntimeOptions runtime() const {
    return {.seed = static_cast<std::uint64_t>(numbers_.at("seed")),
            .threads = static_cast<int>(numbers_.at("threads"))};
  }
  const binade::amp::Policy& policy() const { return policy_; }

  /// The numbers from 0 to steps - 1. Prints `step_ms`, the median time of a turn of the loop, after the last one.
  class Steps {
   public:
    explicit Steps(std::int64_t count) : count_(count) {}
    struct Iterator {
      Steps* steps;
      std::int64_t i;
      std::int64_t operator*() const { return i; }
      bool operator!=(const Iterator& end) const { return i < end.i; }
      Iterator& operator++() {
        steps->finish_turn();
        ++i;
        return *this;
      }
    };
    Iterator begin() { return {this, 0}; }
    Iterator end() { return {this, count_}; }

   private:
    using Clock = std::chrono::steady_clock;
    void finish_turn() {
      const Clock::time_point now = Clock::now();
      times_.push_back(std::chrono::duration<double, std::milli>(now - start_).count());
      start_ = now;
      if (static_cast<std::int64_t>(times_.size()) < count_) return;
      std::ranges::nth_element(times_, times_.begin() + count_ / 2);
      metric("step_ms", times_[static_cast<std::size_t>(count_ / 2)]);
    }

    std::int64_t count_;
    Clock::time_point start_ = Clock::now();
    std::vector<double> times_;
  };
  Steps steps() const { return Steps(numbers_.at("steps")); }
  /// Prints the loss of about ten of the steps.
  void report(std::int64_t step, double loss) const {
    if (step % std::max<std::int64_t>(1, numbers_.at("steps") / 10) == 0)
      std::printf("step %lld loss %.4f\n", static_cast<long long>(step), loss);
  }

 private:
  [[noreturn]] void finish(int code, const std::string& error) const {
    std::ostream& out = code == 0 ? std::cout : std::cerr;
    if (!error.empty()) out << "error: " << error << "\n";
    out << "flags: --policy fp32|bf16|fp16 (fp32)";
    for (const auto& [name, value] : numbers_) out << ", --" << name << " N (" << value << ")";
    out << "\n";
    std::exit(code);
  }
  std::int64_t number_of(const std::string& flag, const std::string& text) const {
    if (text.empty() || text.size() > 15 || text.find_first_not_of("0123456789") != std::string::npos)
      finish(2, flag + " wants a whole number, got '" + text + "'");
    return std::stoll(text);
  }
  binade::amp::Policy policy_of(const std::string& text) const {
    if (text != "fp32" && text != "bf16" && text != "fp16")
      finish(2, "--policy wants fp32, bf16 or fp16, got '" + text + "'");
    return binade::amp::Policy::by_name(text);
  }

  std::map<std::string, std::int64_t> numbers_;
  binade::amp::Policy policy_ = binade::amp::Policy::fp32();
};

}  // namespace models
