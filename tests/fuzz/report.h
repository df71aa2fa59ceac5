#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <vector>

namespace binade::fuzz {

/// An input was accepted, but its result is wrong.
class WrongResult : public std::exception {
 public:
  explicit WrongResult(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

template <class... Errors>
bool is_one_of(const std::exception& error) {
  return (... || (dynamic_cast<const Errors*>(&error) != nullptr));
}

/// The outcome of a number of inputs of one target.
struct Tally {
  static constexpr double kSlow = 2;                 ///< seconds that one input may take
  static constexpr std::size_t kMemory = 64u << 20;  ///< heap bytes that one input may take beyond its size

  std::string target{};
  std::string replay{};  ///< the command line that replays one input, up to its number
  std::int64_t executions = 0, accepted = 0;
  std::map<std::string, std::int64_t> refusals{};  ///< number by reason; see reason_of()
  double slowest = 0;                              ///< seconds
  std::uint64_t slowest_input = 0;
  std::size_t most_memory = 0;
  std::uint64_t greediest_input = 0;
  std::vector<std::string> failures{};
  double seconds = 0;
  std::array<std::int64_t, 160> histogram{};  ///< of the seconds per input; four bins per doubling, from 1 ns

  /// Records the cost of an input.
  void record(double input_seconds, std::size_t bytes, std::uint64_t input);
  void fail(std::uint64_t input, const std::string& what);
  /// Adds the outcome of other inputs of the same target.
  void add(const Tally& other);
  /// The 99.9th percentile of the seconds per input.
  double percentile_999() const;
};

/// An error message without numbers and names: "a header of # bytes in a file of #".
std::string reason_of(const std::string& message);

/// A table for people.
std::string to_text(const std::vector<Tally>& tallies, std::size_t reasons);

/// All members of the tallies, for programs.
std::string to_json(const std::vector<Tally>& tallies);
std::vector<Tally> tallies_from(const std::string& json);

}  // namespace binade::fuzz
