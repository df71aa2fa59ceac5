#include <algorithm>
#include <nlohmann/json.hpp>

#include "binade/doctor/report/format.h"
#include "binade/doctor/report/json_fields.h"
#include "binade/doctor/report/run_history.h"
#include "binade/io/files/files_below.h"

namespace binade::doctor::report::detail {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kReportLimit = 1u << 20;
constexpr std::uint64_t kConfigLimit = 16u << 20;
constexpr std::size_t kMostEntries = 64;
constexpr std::size_t kMostSettings = 400;
// Maximum length in bytes at which the report shows a name, a path, and a longer text from a file.
constexpr std::size_t kNameBytes = 60, kPathBytes = 200, kTextBytes = 2000;

std::string plain(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array() && std::ranges::all_of(value, [](const Json& v) { return v.is_string(); })) {
    std::string list;
    for (const Json& entry : value) list += (list.empty() ? "" : ", ") + entry.get<std::string>();
    return list;
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void read_location(IncidentRecord& incident, const Json& bad) {
  incident.op = clipped(text_in(bad, "op"), kNameBytes);
  incident.module = clipped(text_in(bad, "module"), kPathBytes);
  incident.direction = clipped(text_in(bad, "direction"), kNameBytes);
  incident.tensor = clipped(text_in(bad, "tensor"), kPathBytes);
  incident.dtype = clipped(text_in(bad, "dtype"), kNameBytes);
  incident.value = clipped(text_in(bad, "value"), kNameBytes);
  incident.sample = count_in(bad, "sample");
  incident.sample_id = count_in(bad, "sample_id");
  if (const Json* index = member_of(bad, "index"); index != nullptr && index->is_array() && !index->empty())
    for (const Json& i : *index) incident.index += (incident.index.empty() ? "[" : ", ") + plain(i);
  if (!incident.index.empty()) incident.index = clipped(incident.index, kPathBytes) + "]";
  if (const Json* largest = member_of(bad, "operand_max"); largest != nullptr && largest->is_array())
    for (const Json& value : *largest)
      if (incident.operand_max.size() < kMostEntries) incident.operand_max.push_back(number_of(value));
}

void read_cause(IncidentRecord& incident, const Json& cause) {
  incident.cause = clipped(text_in(cause, "class"), kNameBytes);
  incident.confidence = clipped(text_in(cause, "confidence"), kNameBytes);
  const Json* proof = member_of(cause, "proof");
  if (proof == nullptr || !proof->is_array()) return;
  for (const Json& replay : *proof)
    if (const auto finite = flag_in(replay, "finite"); finite && incident.proof.size() < kMostEntries)
      incident.proof.emplace_back(clipped(text_in(replay, "variant"), kPathBytes), *finite);
}

void read_remedy(IncidentRecord& incident, const Json& remedy) {
  incident.action = clipped(text_in(remedy, "action"), kNameBytes);
  incident.target = clipped(text_in(remedy, "target"), kPathBytes);
  incident.done = clipped(text_in(remedy, "what"), kTextBytes);
  incident.until_step = count_in(remedy, "until_step").value_or(0);
  incident.steps_lost = count_in(remedy, "steps_lost").value_or(0);
  incident.throughput_ratio = number_in(remedy, "throughput_ratio");
  incident.memory_ratio = number_in(remedy, "memory_ratio");
  incident.verified = flag_in(remedy, "verified");
}

IncidentRecord read_incident(RunHistory& history, const std::string& name) {
  const std::string folder = "incidents/" + name;
  IncidentRecord incident{.name = name};
  incident.step = std::atoll(name.substr(0, 12).c_str());
  const std::string text = file_text(history, folder + "/report.json", kReportLimit).value_or("");
  const Json report = object_from<Json>(text);
  if (!report.is_object()) {
    history.problems.push_back(folder + "/report.json: it is missing or damaged");
    incident.markdown = clipped(file_text(history, folder + "/report.md", kReportLimit).value_or(""), kTextBytes);
    return incident;
  }
  incident.step = count_in(report, "step").value_or(incident.step);
  incident.attempt = count_in(report, "attempt").value_or(1);
  incident.drill = flag_in(report, "drill").value_or(false);
  incident.what = clipped(text_in(report, "what"), kTextBytes);
  incident.advice = clipped(text_in(report, "advice"), kTextBytes);
  read_location(incident, object_in(report, "first_bad"));
  read_cause(incident, object_in(report, "cause"));
  read_remedy(incident, object_in(report, "remedy"));
  const Json replay = object_in(report, "replay");
  incident.replays = count_in(replay, "steps").value_or(0);
  incident.reproducible = flag_in(replay, "reproducible");
  return incident;
}

}  // namespace

void read_incidents(RunHistory& history) {
  const auto listed = [&](const std::string& folder) {
    return or_problem(history, [&] { return io::FilesBelow(history.folder).names_in(folder); });
  };
  const auto names = listed("incidents");
  for (const std::string& name : names.value_or(std::vector<std::string>()))
    if (listed("incidents/" + name)) history.incidents.push_back(read_incident(history, name));
  std::ranges::stable_sort(history.incidents, {}, &IncidentRecord::step);
}

void read_config(RunHistory& history) {
  const std::optional<std::string> text = file_text(history, "config.json", kConfigLimit);
  const Json config = object_from<Json>(text.value_or(""));
  if (!config.is_object()) {
    history.problems.push_back("config.json: it is missing or damaged");
    return;
  }
  history.program = clipped(text_in(config, "program"), kNameBytes);
  history.wanted_steps = count_in(config, "steps").value_or(0);
  for (const auto& [name, value] : config.items()) {
    if (name == "program" || history.settings.size() == kMostSettings) continue;
    if (name != "environment" || !value.is_object()) {
      history.settings.emplace_back(clipped(name, kNameBytes), clipped(plain(value), kPathBytes));
      continue;
    }
    for (const auto& [key, entry] : value.items())
      if (history.environment.size() < kMostEntries)
        history.environment.emplace_back(clipped(key, kNameBytes), clipped(plain(entry), kPathBytes));
  }
}

}  // namespace binade::doctor::report::detail
