#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <vector>

namespace binade::fuzz {

/// What was accepted gave something that is wrong.
class Unsound : public std::exception {
 public:
  explicit Unsound(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

template <class... Errors>
bool is_one_of(const std::exception& error) {
  return (... || (dynamic_cast<const Errors*>(&error) != nullptr));
}

/// What a number of inputs of one target came to.
struct Tally {
  static constexpr double kSlow = 2;                 ///< seconds that one input may take
  static constexpr std::size_t kMemory = 64u << 20;  ///< bytes beyond its own size that one input may take

  std::string target{};
  std::string replay{};  ///< the command line that reads one input again, without its number
  std::int64_t executions = 0, accepted = 0;
  std::map<std::string, std::int64_t> refusals{};  ///< by reason, numbers and names left out
  double slowest = 0;                              ///< seconds
  std::uint64_t slowest_input = 0;
  std::size_t most_memory = 0;
  std::uint64_t greediest_input = 0;
  std::vector<std::string> failures{};
  double seconds = 0;
  std::array<std::int64_t, 160> histogram{};  ///< of seconds, by quarters of octaves of nanoseconds

  /// Counts an input.
  void took(double input_seconds, std::size_t bytes, std::uint64_t input);
  void fail(std::uint64_t input, const std::string& what);
  /// Adds what other inputs of the same target came to.
  void add(const Tally& other);
  /// Seconds that all but one of a thousand inputs stay below.
  double percentile_999() const;
};

/// A reason without what differs from input to input: "a header of # bytes in a file of #".
std::string reason_of(const std::string& message);

/// The table for people.
std::string to_text(const std::vector<Tally>& tallies, std::size_t reasons);

/// Every number, for programs.
std::string to_json(const std::vector<Tally>& tallies);
std::vector<Tally> tallies_from(const std::string& json);

}  // namespace binade::fuzz
