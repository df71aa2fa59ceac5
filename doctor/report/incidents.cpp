#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "binade/doctor/report/format.h"
#include "binade/doctor/report/sections.h"

namespace binade::doctor::report {

namespace {

constexpr std::size_t kMostCards = 40;
constexpr std::size_t kMostRows = 400;

std::string location_of(const IncidentRecord& i) {
  if (i.op.empty() && i.tensor.empty()) return "no single op is the cause";
  std::string location = i.op.empty() ? "" : "'" + i.op + "'";
  if (!i.module.empty()) location += " in " + i.module;
  if (!i.direction.empty()) location += " (" + i.direction + ")";
  location += ": " + i.tensor + " is " + i.value;
  if (!i.index.empty()) location += " at " + i.index;
  if (i.sample) location += fmt::format(", sample {}", *i.sample);
  if (i.sample_id) location += fmt::format(" (number {} of the data set)", *i.sample_id);
  return location;
}

/// Describes the cost of the remedy.
std::string cost_of(const IncidentRecord& i) {
  std::vector<std::string> costs;
  if (i.action == "stop") costs.push_back("the run ended here");
  if (i.action == "skip-batch") costs.push_back("nothing was learned from this batch");
  if (i.action == "quarantine-sample") costs.push_back("this sample is not used again");
  if (i.action == "quarantine-plan") costs.push_back("this operation is slower on this machine");
  if (i.action == "lower-scale") costs.push_back("gradients lose a binade of range at their small end");
  if (i.throughput_ratio > 0) costs.push_back(fmt::format("{:.2f} of the speed", i.throughput_ratio));
  if (i.memory_ratio > 0) costs.push_back(fmt::format("{:.2f} of the memory", i.memory_ratio));
  if (i.steps_lost > 0) costs.push_back(counted(i.steps_lost, "step") + " done again");
  if (i.until_step > 0) costs.push_back("until step " + count_text(i.until_step));
  if (i.replays > 0) costs.push_back(counted(i.replays, "run") + " of the step to find out why");
  std::string list;
  for (const std::string& cost : costs) list += (list.empty() ? "" : "; ") + cost;
  return list;
}

Markup chip(const std::string& kind, const std::string& words) {
  return words.empty() ? Markup() : element("span", {{"class", "chip " + kind}}, text(words));
}

std::string kind_of(const std::string& confidence) {
  return confidence == "proven" || confidence == "likely" ? confidence : "unproven";
}

Markup entry(const char* name, const Markup& content) {
  return content.empty() ? Markup() : element("dt", text(name)) + element("dd", content);
}

Markup proof_table(const IncidentRecord& i) {
  if (i.proof.empty()) return {};
  Markup rows = row("th", {text("the step once more, with"), text("finite")});
  for (const auto& [variant, finite] : i.proof)
    rows += row("td",
                {text(variant), element("span", {{"class", finite ? "yes" : "no"}}, text(finite ? "yes" : "no"))});
  return element("table", {{"class", "proof"}}, rows);
}

Markup operands(const IncidentRecord& i) {
  std::string list;
  for (const double x : i.operand_max) {
    list += (list.empty() ? "" : ", ") + number_text(x);
    if (std::isfinite(x) && x > 0) list += fmt::format(" (2^{:.1f})", std::log2(x));
  }
  return text(list);
}

Markup remedy(const IncidentRecord& i) {
  Markup content = element("b", text(i.action.empty() ? "unknown" : i.action));
  if (!i.target.empty()) content += text(" ") + element("code", text(i.target));
  if (!i.done.empty()) content += text(": ") + text(i.done);
  if (i.verified) content += chip(*i.verified ? "proven" : "unproven", *i.verified ? "verified" : "not verified");
  return content;
}

Markup evidence(const IncidentRecord& i) {
  Markup content = i.reproducible ? text(*i.reproducible ? "run again, the step gave the same bits"
                                                         : "run again, the step gave other bits")
                                  : Markup();
  return content + proof_table(i);
}

Markup details(const IncidentRecord& i) {
  if (i.cause.empty() && i.what.empty())
    return i.markdown.empty() ? remark("Its report cannot be read.") : element("pre", text(i.markdown));
  Markup list = entry("where", text(location_of(i))) + entry("what", text(i.what)) + entry("dtype", text(i.dtype)) +
                entry("largest operands", operands(i)) + entry("evidence", evidence(i)) + entry("remedy", remedy(i)) +
                entry("cost", text(cost_of(i))) + entry("to do", text(i.advice));
  return element("dl", list);
}

Markup card(const RunHistory& history, const IncidentRecord& i) {
  const Markup head = element("h3", element("span", {{"class", "step"}}, text("step " + count_text(i.step))) +
                                        text(i.cause.empty() ? "unknown" : i.cause) +
                                        chip(kind_of(i.confidence), i.confidence) +
                                        chip("drill", i.drill ? "drill" : ""));
  return element("article",
                 {{"id", anchor_of(history, i).substr(1)}, {"class", i.drill ? "card drill" : "card incident"}},
                 head + details(i));
}

/// Returns the last `most` incidents.
std::span<const IncidentRecord> latest(const RunHistory& history, std::size_t most) {
  const std::span<const IncidentRecord> all(history.incidents);
  return all.last(std::min(all.size(), most));
}

Markup overview_table(const RunHistory& history) {
  Markup rows = row("th", {text("step"), text("class"), text("confidence"), text("where"), text("remedy"), text("")});
  for (const IncidentRecord& i : latest(history, kMostRows))
    rows += row("td", {element("a", {{"href", anchor_of(history, i)}}, text(count_text(i.step))), text(i.cause),
                       text(i.confidence), text(i.module.empty() ? i.op : i.module), text(i.action),
                       text(i.drill ? "drill" : "")});
  return element("table", {{"class", "list"}}, rows);
}

constexpr std::size_t kMostEvents = 400;

/// Returns the time of day: "2026-11-22T03:45:06Z" -> "03:45:06". The head of the page shows the date.
std::string time_of_day(const std::string& time) {
  return time.size() == 20 && time[10] == 'T' ? time.substr(11, 8) : time;
}

/// Returns the text of an event; the text of an incident links to its card.
Markup event_text(const RunHistory& history, const EventRecord& event) {
  const IncidentRecord* incident = event.kind == "incident" ? history.incident_at(event.step) : nullptr;
  const std::string anchor = incident == nullptr ? "" : anchor_of(history, *incident);
  return anchor.empty() ? text(event.what) : element("a", {{"href", anchor}}, text(event.what));
}

}  // namespace

std::string anchor_of(const RunHistory& history, const IncidentRecord& incident) {
  const std::ptrdiff_t number = &incident - history.incidents.data() + 1;
  const bool has_card = number + static_cast<std::ptrdiff_t>(kMostCards) > std::ssize(history.incidents);
  return has_card ? fmt::format("#incident-{}", number) : "";
}

std::string title_of(const IncidentRecord& i) {
  return fmt::format("step {}: {}{}{}", count_text(i.step), i.cause.empty() ? "an incident" : i.cause,
                     i.module.empty() ? "" : " in " + i.module, i.drill ? " (drill)" : "");
}

std::vector<Mark> marks_of(const RunHistory& history) {
  std::vector<Mark> marks;
  for (const IncidentRecord& i : history.incidents)
    marks.push_back({.step = i.step, .drill = i.drill, .title = title_of(i), .anchor = anchor_of(history, i)});
  return marks;
}

Markup incidents_section(const RunHistory& history) {
  if (history.incidents.empty())
    return section("Incidents",
                   remark("None: every step was committed, or overflowed in backward alone and was tried again."));
  Markup content;
  if (history.incidents.size() > 3) content += overview_table(history);
  for (const IncidentRecord& incident : latest(history, kMostCards)) content += card(history, incident);
  if (history.incidents.size() > kMostCards)
    content += element("p", text(fmt::format("The last {} of {}; all are in incidents/ of the run folder.", kMostCards,
                                             count_text(std::ssize(history.incidents)))));
  return section("Incidents", content);
}

Markup events_section(const RunHistory& history) {
  if (history.events.empty()) return {};
  const std::span<const EventRecord> all(history.events);
  Markup rows = row("th", {text("time"), text("step"), text(""), text("what happened")});
  for (const EventRecord& event : all.last(std::min(all.size(), kMostEvents)))
    rows += row("td", {text(time_of_day(event.time)), text(count_text(event.step)), text(event.kind),
                       event_text(history, event)});
  Markup content = element("table", {{"class", "list story"}}, rows);
  if (all.size() > kMostEvents)
    content += element("p", text(fmt::format("The last {} of {}; all are in events.jsonl of the run folder.",
                                             kMostEvents, count_text(std::ssize(all)))));
  return section("What happened", content);
}

}  // namespace binade::doctor::report
