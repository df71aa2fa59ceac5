#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "binade/doctor/report/format.h"
#include "binade/doctor/report/json_fields.h"
#include "binade/doctor/report/run_history.h"

namespace binade::doctor::report::detail {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kLogLimit = std::uint64_t{4} << 30;
constexpr std::uint64_t kHeadroomLimit = 256u << 20;
constexpr std::uint64_t kEventLimit = 64u << 20;
constexpr std::size_t kTextBytes = 2000;
constexpr std::size_t kLineLimit = 4u << 20;
constexpr std::size_t kMostEvaluationNumbers = 32;
constexpr std::size_t kMostModules = 4096;
constexpr std::size_t kNameBytes = 60, kPathBytes = 100;  // maximum number of bytes of a name and of a module path

/// Reads the log `name` and calls `each(step, object)` for every line that is a JSON object with a step. Reports the
/// number of other lines as a problem.
template <class F>
void for_each_line(RunHistory& history, const std::string& name, std::uint64_t limit, F&& each) {
  const std::optional<std::string> text = file_text(history, name, limit);
  if (!text) return;
  std::int64_t damaged = 0;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const std::string line = end - at <= kLineLimit ? text->substr(at, end - at) : "";
    at = end + 1;
    const Json object = object_from<Json>(line);
    const std::optional<std::int64_t> step = count_in(object, "step");
    if (step)
      each(*step, object);
    else
      ++damaged;
  }
  if (damaged > 0)
    history.problems.push_back(
        fmt::format("{}: {} could not be read (a process that is killed leaves its last line torn)", name,
                    counted(damaged, "line")));
}

/// Appends the value of a step. Before that, removes values of this step and of later ones: a rollback undid them.
void append(Series& series, std::int64_t step, double value) {
  while (!series.empty() && series.back().step >= static_cast<double>(step)) series.pop_back();
  series.push_back({static_cast<double>(step), value});
}

void read_attempt(RunHistory& history, std::int64_t step, const Json& line) {
  const Attempt attempt{.step = step,
                        .number = count_in(line, "attempt").value_or(1),
                        .committed = flag_in(line, "committed").value_or(false),
                        .loss = number_in(line, "loss"),
                        .grad_norm = number_in(line, "grad_norm"),
                        .loss_scale = number_in(line, "loss_scale"),
                        .lr = number_in(line, "lr")};
  history.ended_aborted = !attempt.committed;
  if (!attempt.committed) {
    history.aborted.push_back(attempt);
    return;
  }
  while (!history.committed.empty() && history.committed.back().step >= step) history.committed.pop_back();
  history.committed.push_back(attempt);
}

void read_evaluation(RunHistory& history, std::int64_t step, const Json& line) {
  for (const auto& [key, value] : line.items()) {
    if (key == "step" || !value.is_number()) continue;
    const std::string name = clipped(key, kNameBytes);
    auto at = std::ranges::find(history.evaluations, name, &std::pair<std::string, Series>::first);
    if (at == history.evaluations.end()) {
      if (history.evaluations.size() == kMostEvaluationNumbers) continue;
      at = history.evaluations.insert(at, {name, {}});
    }
    append(at->second, step, value.get<double>());
  }
}

void read_timing(RunHistory& history, std::int64_t step, const Json& line) {
  append(history.milliseconds, step, number_in(line, "ms"));
  for (const auto& [name, value] : line.items())
    if (name.ends_with("_per_s")) {
      append(history.rate, step, number_of(value));
      history.unit = clipped(name.substr(0, name.size() - 6), kNameBytes);
    }
  history.peak_memory_mib = std::fmax(history.peak_memory_mib, number_in(line, "mem_mb"));
  const std::string time = text_in(line, "time");
  if (history.began.empty()) history.began = time;
  if (!time.empty()) history.ended = time;
}

void read_headroom(std::map<std::int64_t, HeadroomLine>& lines, std::int64_t step, const Json& line) {
  HeadroomLine read{.step = step, .incident = flag_in(line, "incident").value_or(false)};
  const Json modules = object_in(line, "headroom");
  for (const auto& [module, sides] : modules.items()) {
    if (!sides.is_array() || sides.size() != 2 || read.modules.size() == kMostModules) continue;
    read.modules.push_back(
        {.module = clipped(module, kPathBytes), .forward = number_of(sides[0]), .backward = number_of(sides[1])});
  }
  const auto before = lines.find(step);
  if (before == lines.end() || !before->second.incident || read.incident) lines[step] = std::move(read);
}

}  // namespace

void read_logs(RunHistory& history) {
  for_each_line(history, "metrics.jsonl", kLogLimit, [&](std::int64_t step, const Json& line) {
    line.contains("committed") ? read_attempt(history, step, line) : read_evaluation(history, step, line);
  });
  for_each_line(history, "timing.jsonl", kLogLimit,
                [&](std::int64_t step, const Json& line) { read_timing(history, step, line); });
  for_each_line(history, "events.jsonl", kEventLimit, [&](std::int64_t step, const Json& line) {
    history.events.push_back({.step = step,
                              .kind = clipped(text_in(line, "kind"), kNameBytes),
                              .what = clipped(text_in(line, "what"), kTextBytes),
                              .time = clipped(text_in(line, "time"), kNameBytes)});
  });
  std::map<std::int64_t, HeadroomLine> lines;
  for_each_line(history, "headroom.jsonl", kHeadroomLimit,
                [&](std::int64_t step, const Json& line) { read_headroom(lines, step, line); });
  for (auto& [step, line] : lines) history.headroom.push_back(std::move(line));
}

}  // namespace binade::doctor::report::detail
