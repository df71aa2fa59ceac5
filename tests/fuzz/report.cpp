#include "tests/fuzz/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace binade::fuzz {
namespace {

constexpr int kPerOctave = 4;
constexpr std::size_t kMostFailures = 20;  // per target; only the first are kept

/// Calls visit(name, member) for every member of a tally that its JSON has.
template <class AnyTally, class Visit>
void visit_members(AnyTally& t, const Visit& visit) {
  visit("target", t.target);
  visit("replay", t.replay);
  visit("executions", t.executions);
  visit("accepted", t.accepted);
  visit("refusals", t.refusals);
  visit("seconds", t.seconds);
  visit("slowest_seconds", t.slowest);
  visit("slowest_input", t.slowest_input);
  visit("peak_bytes", t.most_memory);
  visit("greediest_input", t.greediest_input);
  visit("histogram", t.histogram);
  visit("failures", t.failures);
}

}  // namespace

void Tally::record(double input_seconds, std::size_t bytes, std::uint64_t input) {
  ++executions;
  if (input_seconds > slowest) {
    slowest = input_seconds;
    slowest_input = input;
  }
  if (bytes > most_memory) {
    most_memory = bytes;
    greediest_input = input;
  }
  const double octaves = std::log2(std::max(1.0, input_seconds * 1e9));
  const auto at = std::min<std::size_t>(histogram.size() - 1, static_cast<std::size_t>(octaves * kPerOctave));
  ++histogram[at];
}

void Tally::fail(std::uint64_t input, const std::string& what) {
  if (failures.size() < kMostFailures)
    failures.push_back(fmt::format("FAILED {}: {}; replay: {}{}", target, what, replay, input));
}

void Tally::add(const Tally& other) {
  executions += other.executions;
  accepted += other.accepted;
  seconds += other.seconds;
  for (const auto& [reason, count] : other.refusals) refusals[reason] += count;
  if (other.slowest > slowest) {
    slowest = other.slowest;
    slowest_input = other.slowest_input;
  }
  if (other.most_memory > most_memory) {
    most_memory = other.most_memory;
    greediest_input = other.greediest_input;
  }
  failures.insert(failures.end(), other.failures.begin(), other.failures.end());
  for (std::size_t i = 0; i < histogram.size(); ++i) histogram[i] += other.histogram[i];
}

double Tally::percentile_999() const {
  std::int64_t above = executions / 1000;
  for (std::size_t i = histogram.size(); i-- > 0;) {
    above -= histogram[i];
    if (above < 0) return std::min(slowest, std::exp2(static_cast<double>(i + 1) / kPerOctave) * 1e-9);
  }
  return 0;
}

std::string reason_of(const std::string& message) {
  std::string reason;
  char quote = '\0';
  for (const char c : message) {
    if (reason.size() >= 100) break;
    if (quote != '\0') {
      if (c == quote) quote = '\0';
      continue;
    }
    const bool digit = c >= '0' && c <= '9';
    if (c == '"' || (c == '\'' && reason.ends_with(' '))) quote = c;
    if (c < ' ' || c > '~') continue;
    if (digit || quote != '\0') {
      if (!reason.ends_with('#')) reason += '#';
    } else {
      reason += c;
    }
  }
  return reason;
}

std::string to_text(const std::vector<Tally>& tallies, std::size_t reasons) {
  std::string text = fmt::format("{:<12} {:>11} {:>11} {:>11} {:>8} {:>8} {:>10} {:>10} {:>10}\n", "target", "inputs",
                                 "accepted", "refused", "reasons", "per s", "p99.9 ms", "slowest ms", "peak KiB");
  std::int64_t executions = 0, failures = 0;
  for (const Tally& t : tallies) {
    std::int64_t refused = 0;
    for (const auto& [reason, count] : t.refusals) refused += count;
    text += fmt::format("{:<12} {:>11} {:>11} {:>11} {:>8} {:>8.0f} {:>10.3f} {:>10.3f} {:>10}\n", t.target,
                        t.executions, t.accepted, refused, t.refusals.size(),
                        static_cast<double>(t.executions) / std::max(1e-9, t.seconds), t.percentile_999() * 1e3,
                        t.slowest * 1e3, t.most_memory / 1024);
    executions += t.executions;
    failures += static_cast<std::int64_t>(t.failures.size());
  }
  for (const Tally& t : tallies) {
    if (reasons == 0) break;
    std::vector<std::pair<std::int64_t, std::string>> sorted;
    for (const auto& [reason, count] : t.refusals) sorted.emplace_back(count, reason);
    std::sort(sorted.rbegin(), sorted.rend());
    text += fmt::format("\n{}: slowest input {}, greediest {}\n", t.target, t.slowest_input, t.greediest_input);
    for (std::size_t i = 0; i < std::min(reasons, sorted.size()); ++i)
      text += fmt::format("{:>11}  {}\n", sorted[i].first, sorted[i].second);
  }
  for (const Tally& t : tallies)
    for (const std::string& failure : t.failures) text += failure + "\n";
  return text + fmt::format("\n{} inputs, {} failures\n", executions, failures);
}

std::string to_json(const std::vector<Tally>& tallies) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Tally& t : tallies) {
    nlohmann::ordered_json& one = list.emplace_back();
    visit_members(t, [&](const char* name, const auto& member) { one[name] = member; });
    one["p999_seconds"] = t.percentile_999();
  }
  return list.dump(1) + "\n";
}

std::vector<Tally> tallies_from(const std::string& json) {
  std::vector<Tally> tallies;
  for (const nlohmann::json& one : nlohmann::json::parse(json)) {
    visit_members(tallies.emplace_back(), [&](const char* name, auto& member) { one.at(name).get_to(member); });
  }
  return tallies;
}

}  // namespace binade::fuzz
