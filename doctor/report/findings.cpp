#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "binade/doctor/report/format.h"
#include "binade/doctor/report/sections.h"

namespace binade::doctor::report {

namespace {

constexpr double kLowHeadroom = 2;      // headroom below which a module is reported, in binades
constexpr double kOverfitRatio = 1.02;  // last validation loss / best one, above which overfitting is reported
constexpr double kSkipShare = 0.05;     // share of aborted attempts, above which it is reported
constexpr double kDivergedRatio = 1.5;  // latest losses / first loss, above which divergence is reported
constexpr std::size_t kLatest = 3;      // number of latest losses that are compared with the first
// The kind of event that a warning has in events.jsonl (decision 0051).
constexpr std::string_view kWarningEvent = "sign";
constexpr std::size_t kMostNamed = 4;     // largest number of warnings or modules in a finding
constexpr std::size_t kMostFindings = 8;  // incidents are listed only while there are fewer findings

Markup finding(const std::string& lead, const std::string& rest) { return element("b", text(lead)) + text(rest); }

Markup link_with_advice(const RunHistory& history, const IncidentRecord& incident) {
  return element("a", {{"href", anchor_of(history, incident)}}, text(title_of(incident))) +
         text(incident.advice.empty() ? "." : ". To do: " + incident.advice + ".");
}

void find_end(const RunHistory& history, std::vector<Markup>& findings) {
  if (history.committed.empty() && !history.running) findings.push_back(element("b", text("No step was committed.")));
  const IncidentRecord* fatal = history.fatal_incident();
  if (fatal == nullptr) return;
  findings.push_back(finding("The run stopped. ", "") + link_with_advice(history, *fatal));
}

void find_incidents(const RunHistory& history, std::vector<Markup>& findings) {
  std::map<std::string, std::vector<const IncidentRecord*>> by_class;
  for (const IncidentRecord& i : history.incidents)
    if (!i.drill) by_class[i.cause.empty() ? "unknown" : i.cause].push_back(&i);
  for (const auto& [cause, incidents] : by_class) {
    if (findings.size() == kMostFindings) return;
    const std::string lead = counted(std::ssize(incidents), "incident") + " of class " + cause + ". ";
    findings.push_back(finding(lead, "The latest: ") + link_with_advice(history, *incidents.back()));
  }
}

/// Adds a finding if the latest losses are far above the first one.
void find_divergence(const RunHistory& history, std::vector<Markup>& findings) {
  const std::vector<Attempt>& steps = history.committed;
  const std::size_t latest = std::min(kLatest, steps.size() - std::min<std::size_t>(steps.size(), 1));
  if (latest == 0 || !(steps.front().loss > 0)) return;
  const double lowest = std::ranges::min(std::span(steps).last(latest), {}, &Attempt::loss).loss;
  if (!(lowest > kDivergedRatio * steps.front().loss)) return;
  findings.push_back(finding("The loss ended higher than it began: ",
                             fmt::format("{} at step {}, {} at step {}. To do: lower the learning rate, warm it up, or "
                                         "clip by norm.",
                                         number_text(steps.front().loss), count_text(steps.front().step),
                                         number_text(steps.back().loss), count_text(steps.back().step))));
}

/// Adds findings about the latest warnings (docs/warnings.md).
void find_warnings(const RunHistory& history, std::vector<Markup>& findings) {
  std::vector<const EventRecord*> warnings;
  for (const EventRecord& event : history.events)
    if (event.kind == kWarningEvent) warnings.push_back(&event);
  const std::size_t first = warnings.size() > kMostNamed ? warnings.size() - kMostNamed : 0;
  if (first > 0)
    findings.push_back(element("b", text(counted(static_cast<std::ptrdiff_t>(first), "earlier warning") + ".")));
  for (std::size_t i = first; i < warnings.size(); ++i)
    findings.push_back(finding("Warning: ", warnings[i]->what + "."));
}

void find_headroom(const RunHistory& history, std::vector<Markup>& findings) {
  std::vector<LeastHeadroom> near = least_forward_headroom(history);
  std::erase_if(near, [](const LeastHeadroom& n) { return !(n.binades < kLowHeadroom); });
  if (near.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min(near.size(), kMostNamed); ++i)
    names += fmt::format("{}{} ({}, step {})", i == 0 ? "" : ", ",
                         near[i].module.empty() ? "outside of modules" : near[i].module, binades_text(near[i].binades),
                         count_text(near[i].step));
  if (near.size() > kMostNamed)
    names += " and " + counted(std::ssize(near) - static_cast<std::ptrdiff_t>(kMostNamed), "more module");
  findings.push_back(finding("Forward comes near to overflow: ",
                             names + ". Compute there in f32 by an override, or keep the values smaller."));
}

void find_skips(const RunHistory& history, std::vector<Markup>& findings) {
  const double attempts = static_cast<double>(history.committed.size() + history.aborted.size());
  if (static_cast<double>(history.aborted.size()) <= kSkipShare * attempts) return;
  findings.push_back(finding("Many attempts were not committed: ",
                             fmt::format("{} of {}. A lower initial loss scale saves the first ones.",
                                         count_text(std::ssize(history.aborted)), count_text(std::llround(attempts)))));
}

void find_overfit(const RunHistory& history, std::vector<Markup>& findings) {
  const Series* validation = evaluation_of(history, "val_loss");
  if (validation == nullptr) return;
  const Point best = lowest(*validation), last = validation->back();
  if (!(best.value > 0 && last.value > best.value * kOverfitRatio)) return;
  findings.push_back(
      finding("Validation was better before: ",
              fmt::format("{} at step {}, {} at step {}.", number_text(best.value), count_text(std::llround(best.step)),
                          number_text(last.value), count_text(std::llround(last.step)))));
}

void find_checkpoints(const RunHistory& history, std::vector<Markup>& findings) {
  if (history.committed.empty() || !history.checkpoints.entries.empty()) return;
  findings.push_back(finding("No checkpoint is listed: ", "what was trained may be lost with the process."));
}

}  // namespace

Markup findings_section(const RunHistory& history) {
  std::vector<Markup> findings;
  for (const auto find : {find_end, find_divergence, find_incidents, find_warnings, find_headroom, find_skips,
                          find_overfit, find_checkpoints})
    find(history, findings);
  if (findings.empty()) return section("Worth a look", remark("Nothing stands out."));
  Markup list;
  for (const Markup& finding : findings) list += element("li", finding);
  return section("Worth a look", element("ul", {{"class", "findings"}}, list));
}

}  // namespace binade::doctor::report
