#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

/// What the laboratories of tests/ (crash/, resume/) have in common: experiments that draw their cases from a seed,
/// count them, and end with what they found.
namespace binade::lab {

/// What every experiment is told: `LABORATORY NAME --seed N --cases M`.
struct Assignment {
  std::uint64_t seed = 1;
  std::int64_t cases = 0;   ///< 0: the experiment's slice for every commit
  bool full = false;        ///< the whole of it
  std::uint64_t story = 0;  ///< power-loss: this one alone, as a violation names it; 0: those of the seed
};

/// Numbers in order from one seed.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  std::uint64_t bits() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

/// A folder that goes with its owner. In memory where the system has such a place: a kill does not ask the disk.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  /// A path in it at which nothing is; what was there is removed.
  std::string fresh(const std::string& name) const;

 private:
  std::string path_;
};

/// What an experiment counted and found. It passes when nothing was violated and every floor was reached.
class Findings {
 public:
  void count(const std::string& what, std::int64_t n) { counts_.push_back({what, n, 0}); }
  void count_at_least(const std::string& what, std::int64_t n, std::int64_t floor) {
    counts_.push_back({what, n, floor});
  }
  /// The first few are printed in full.
  void violation(const std::string& what);
  std::int64_t violations() const { return violations_; }
  /// Prints everything; true when the experiment passes.
  bool report(const std::string& experiment, const Assignment& assignment, double seconds) const;

 private:
  struct Count {
    std::string what{};
    std::int64_t n{}, floor{};
  };
  std::vector<Count> counts_;
  std::vector<std::string> told_;
  std::int64_t violations_ = 0;
};

/// An experiment of the laboratory. It throws only when it could not be carried out.
struct Experiment {
  const char* name{};
  const char* what{};
  std::function<void(const Assignment&, Findings&)> run{};
};

}  // namespace binade::lab
