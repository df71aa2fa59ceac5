#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "binade/doctor/report/format.h"
#include "binade/doctor/report/sections.h"

namespace binade::doctor::report {

namespace {

std::int64_t drills_of(const RunHistory& history) {
  return std::ranges::count_if(history.incidents, &IncidentRecord::drill);
}

struct Status {
  std::string words;
  const char* kind;  // class in the style sheet
};

Status status_of(const RunHistory& history) {
  if (history.running) return {"running", "live"};
  if (history.fatal_incident() != nullptr) return {"stopped by an incident", "bad"};
  if (history.committed.empty()) return {"no step committed", "bad"};
  if (history.wanted_steps > 0 && history.last_step() >= history.wanted_steps) return {"finished", "good"};
  return {"ended early", "bad"};
}

Markup tile(const std::string& name, const std::string& value, const std::string& remark) {
  return element("div", {{"class", "tile"}},
                 element("span", {{"class", "name"}}, text(name)) + element("b", text(value)) +
                     element("span", {{"class", "remark"}}, text(remark)));
}

Markup step_tile(const RunHistory& history) {
  const std::string wanted = history.wanted_steps > 0 ? "of " + count_text(history.wanted_steps) : "";
  return tile("steps", count_text(history.last_step()), wanted);
}

Markup loss_tiles(const RunHistory& history) {
  if (history.committed.empty()) return {};
  Markup tiles = tile("training loss", number_text(recent_loss(history)),
                      "from " + number_text(history.committed.front().loss) + ", mean of the last steps");
  if (const Series* validation = evaluation_of(history, "val_loss")) {
    const Point best = lowest(*validation);
    tiles += tile("best validation loss", number_text(best.value), "at step " + count_text(std::llround(best.step)));
  }
  return tiles;
}

Markup speed_tiles(const RunHistory& history) {
  if (history.milliseconds.empty()) return {};
  std::vector<double> rates;
  double seconds = 0;
  for (const Point& p : finite_of(history.rate)) rates.push_back(p.value);
  for (const Point& p : finite_of(history.milliseconds)) seconds += p.value / 1000;
  Markup tiles;
  if (!rates.empty()) tiles += tile(history.unit + " per second", number_text(median_of(rates)), "median");
  return tiles +
         tile("time in steps", duration_text(seconds),
              history.peak_memory_mib > 0 ? "memory up to " + number_text(history.peak_memory_mib) + " MiB" : "");
}

Markup incident_tiles(const RunHistory& history) {
  const std::int64_t drills = drills_of(history), all = std::ssize(history.incidents);
  std::string remark = all == 0 ? "nothing went wrong" : drills == all ? "all drills" : "";
  if (drills > 0 && drills < all) remark = counted(drills, "drill") + " among them";
  const std::int64_t attempts = std::ssize(history.committed) + std::ssize(history.aborted);
  return tile("incidents", count_text(all), remark) +
         tile("skipped attempts", count_text(std::ssize(history.aborted)),
              attempts > 0 ? fmt::format("{:.2g} % of all", 100.0 * static_cast<double>(history.aborted.size()) /
                                                                static_cast<double>(attempts))
                           : "");
}

Markup headroom_tile(const RunHistory& history) {
  const std::vector<LeastHeadroom> nearest = least_forward_headroom(history);
  if (nearest.empty() || std::isinf(nearest.front().binades)) return {};
  const LeastHeadroom& n = nearest.front();
  return tile("binades left to overflow, forward", fmt::format("{:.1f}", n.binades),
              (n.module.empty() ? "outside of modules" : n.module) + ", step " + count_text(n.step));
}

std::string entry_of(const std::vector<std::pair<std::string, std::string>>& list, const std::string& name) {
  const auto at = std::ranges::find(list, name, &std::pair<std::string, std::string>::first);
  return at == list.end() ? "" : at->second;
}

/// Returns the run's time span, "2026-11-22 00:09:41 – 00:10:44 UTC", from the format of timing.jsonl.
std::string times_of(const RunHistory& history) {
  const std::string &from = history.began, &to = history.ended;
  if (from.size() != 20 || to.size() != 20) return from + " – " + to;
  const bool same_day = from.substr(0, 10) == to.substr(0, 10);
  const auto readable = [](const std::string& time) { return time.substr(0, 10) + " " + time.substr(11, 8); };
  return readable(from) + " – " + (same_day ? to.substr(11, 8) : readable(to)) + " UTC";
}

Markup facts(const RunHistory& history) {
  std::vector<std::string> facts;
  if (!history.program.empty()) facts.push_back(history.program);
  if (const std::string precision = entry_of(history.settings, "precision"); !precision.empty())
    facts.push_back(precision);
  if (const std::string device = entry_of(history.environment, "device"); !device.empty()) {
    const std::string threads = entry_of(history.environment, "threads");
    facts.push_back(device + (threads.empty() ? "" : ", " + threads + (threads == "1" ? " thread" : " threads")));
  }
  if (!history.began.empty()) facts.push_back(times_of(history));
  Markup line;
  for (const std::string& fact : facts) line += element("span", text(clipped(fact, 80)));
  return element("p", {{"class", "facts"}}, line);
}

}  // namespace

Markup head_section(const RunHistory& history) {
  const Status status = status_of(history);
  const std::string name = std::filesystem::path(history.folder).filename().string();
  return element("header", element("h1", text(name) + element("span", {{"class", std::string("status ") + status.kind}},
                                                              text(status.words))) +
                               facts(history) +
                               element("div", {{"class", "tiles"}},
                                       step_tile(history) + loss_tiles(history) + speed_tiles(history) +
                                           headroom_tile(history) + incident_tiles(history)));
}

}  // namespace binade::doctor::report
