#include <algorithm>
#include <span>

#include "binade/doctor/report/format.h"
#include "binade/doctor/report/sections.h"

namespace binade::doctor::report {

namespace {

constexpr std::size_t kMostEvents = 400;

/// Returns the time of day: "2026-11-22T03:45:06Z" -> "03:45:06". The head of the page shows the date.
std::string time_of_day(const std::string& time) {
  return time.size() == 20 && time[10] == 'T' ? time.substr(11, 8) : time;
}

/// Returns the text of an event; the text of an incident links to its card.
Markup what_of(const RunHistory& history, const EventRecord& event) {
  const IncidentRecord* incident = event.kind == "incident" ? history.incident_at(event.step) : nullptr;
  const std::string anchor = incident == nullptr ? "" : anchor_of(history, *incident);
  return anchor.empty() ? text(event.what) : element("a", {{"href", anchor}}, text(event.what));
}

}  // namespace

Markup events_section(const RunHistory& history) {
  if (history.events.empty()) return {};
  const std::span<const EventRecord> all(history.events);
  Markup rows = row("th", {text("time"), text("step"), text(""), text("what happened")});
  for (const EventRecord& event : all.last(std::min(all.size(), kMostEvents)))
    rows += row("td", {text(time_of_day(event.time)), text(count_text(event.step)), text(event.kind),
                       what_of(history, event)});
  Markup content = element("table", {{"class", "list story"}}, rows);
  if (all.size() > kMostEvents)
    content += element("p", text(fmt::format("The last {} of {}; all are in events.jsonl of the run folder.",
                                             kMostEvents, count_text(std::ssize(all)))));
  return section("What happened", content);
}

}  // namespace binade::doctor::report
