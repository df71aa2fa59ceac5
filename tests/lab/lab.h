#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

/// Code that crash_lab (tests/crash) and resume_matrix (tests/resume) share: experiments that draw cases from a seed,
/// count them, and report violations.
namespace binade::lab {

/// The command line of an experiment: `PROGRAM NAME --seed N --cases M`.
struct Assignment {
  std::uint64_t seed = 1;
  std::int64_t cases = 0;  ///< number of cases; 0: the part that `./dev test` runs
  bool full = false;       ///< true: all cases
  std::uint64_t story =
      0;  ///< power-loss: run only this story (a violation prints its number); 0: all stories of the seed
};

/// A stream of random numbers from a seed.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  std::uint64_t bits() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

/// A folder that is removed with this object. It is in memory if the system has /dev/shm, because kills do not depend
/// on the disk.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  /// Returns a path in the folder and removes the file or folder at this path.
  std::string fresh(const std::string& name) const;

 private:
  std::string path_;
};

/// Counts and violations of an experiment. It passes if there is no violation and every count reaches its floor.
class Findings {
 public:
  void count(const std::string& what, std::int64_t n) { counts_.push_back({what, n, 0}); }
  void count_at_least(const std::string& what, std::int64_t n, std::int64_t floor) {
    counts_.push_back({what, n, floor});
  }
  /// Records a violation; the first few are printed in full.
  void violation(const std::string& what);
  std::int64_t violations() const { return violations_; }
  /// Prints all counts and violations. Returns true if the experiment passes.
  bool report(const std::string& experiment, const Assignment& assignment, double seconds) const;

 private:
  struct Count {
    std::string what{};
    std::int64_t n{}, floor{};
  };
  std::vector<Count> counts_;
  std::vector<std::string> printed_;
  std::int64_t violations_ = 0;
};

/// An experiment. `run` throws only if the experiment cannot be carried out.
struct Experiment {
  const char* name{};
  const char* what{};
  std::function<void(const Assignment&, Findings&)> run{};
};

}  // namespace binade::lab
