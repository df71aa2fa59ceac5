#include <fmt/core.h>

#include <algorithm>

#include "binade/doctor/report/format.h"
#include "binade/doctor/report/sections.h"
#include "binade/doctor/selected_checkpoint.h"

namespace binade::doctor::report {

namespace {

constexpr std::size_t kMostAttempts = 200;
constexpr std::size_t kMostCheckpoints = 100;
constexpr std::size_t kMostOpenRows = 12;  // tables with more rows are folded
constexpr std::size_t kLongestSample = 6000;
constexpr std::size_t kLongestProblem = 400;

Markup folded(bool is_long, const std::string& summary, const Markup& content) {
  if (!is_long) return content;
  return element("details", element("summary", text(summary)) + content);
}

Markup settings_table(const std::vector<std::pair<std::string, std::string>>& settings) {
  Markup list;
  for (const auto& [name, value] : settings)
    list += element("div", element("dt", text(name)) + element("dd", value.empty() ? text("–") : text(value)));
  return element("dl", {{"class", "settings"}}, list);
}

}  // namespace

Markup attempts_section(const RunHistory& history) {
  const std::vector<Attempt>& aborted = history.aborted;
  if (aborted.empty()) return section("Skipped attempts", remark("None."));
  Markup rows = row("th", {text("step"), text("attempt"), text("loss"), text("gradient norm"), text("loss scale"),
                           text("why")});
  const std::size_t first = aborted.size() - std::min(aborted.size(), kMostAttempts);
  for (std::size_t n = first; n < aborted.size(); ++n) {
    const Attempt& a = aborted[n];
    const IncidentRecord* incident = history.incident_at(a.step);
    rows += row("td",
                {text(count_text(a.step)), text(count_text(a.number)), text(number_text(a.loss)),
                 text(number_text(a.grad_norm)), text(scale_text(a.loss_scale)),
                 incident == nullptr ? text("scaled gradients overflowed")
                                     : element("a", {{"href", anchor_of(history, *incident)}}, text("incident"))});
  }
  std::string words = "They left no trace in weights, moments or statistics.";
  if (first > 0) words += " The last " + count_text(static_cast<std::int64_t>(kMostAttempts)) + " are listed.";
  return section("Skipped attempts", element("p", text(words)) +
                                         folded(aborted.size() > kMostOpenRows, counted(std::ssize(aborted), "attempt"),
                                                element("table", {{"class", "list numbers"}}, rows)));
}

Markup samples_section(const RunHistory& history) {
  if (history.samples.empty()) return {};
  Markup cards;
  for (const Sample& sample : history.samples) {
    const Markup caption = element("figcaption", text("step " + count_text(sample.step)));
    const Markup shown = sample.png.empty()
                             ? element("pre", text(clipped(sample.text, kLongestSample)))
                             : shape("img",
                                     {{"alt", "the model's result for an image at step " + count_text(sample.step)},
                                      {"width", std::to_string(sample.width)},
                                      {"height", std::to_string(sample.height)},
                                      {"src", "data:image/png;base64," + base64(sample.png)}});
    cards += element("figure", {{"class", sample.png.empty() ? "sample" : "sample picture"}}, caption + shown);
  }
  return section("Samples", element("div", {{"class", "samples"}}, cards));
}

Markup checkpoints_section(const RunHistory& history) {
  const std::vector<io::ManifestEntry>& entries = history.checkpoints.entries;
  if (entries.empty()) return section("Checkpoints", remark("None is listed in checkpoints/MANIFEST."));
  const std::vector<std::size_t> best = io::best_first(entries);
  const std::string score = best.empty() ? "score" : fmt::format("score ({})", direction_of(*entries[best[0]].score));
  Markup rows = row("th", {text("step"), text("file"), text("size"), text("trust"), text(score), text("")});
  const std::size_t first = entries.size() - std::min(entries.size(), kMostCheckpoints);
  for (std::size_t n = first; n < entries.size(); ++n) {
    const io::ManifestEntry& e = entries[n];
    std::string remark = !best.empty() && best[0] == n ? "best" : "";
    if (!e.finite) remark += remark.empty() ? "holds non-finite numbers" : ", holds non-finite numbers";
    rows += row("td", {text(count_text(e.step)), element("code", text(e.file)), text(bytes_text(e.bytes)),
                       text(name_of(e.status)), text(e.score ? number_text(e.score->value) : "–"), text(remark)});
  }
  return section("Checkpoints", folded(entries.size() > kMostOpenRows, counted(std::ssize(entries), "checkpoint"),
                                       element("table", {{"class", "list numbers"}}, rows)));
}

Markup settings_section(const RunHistory& history) {
  if (history.settings.empty() && history.environment.empty())
    return section("Settings", remark("config.json holds none."));
  Markup content = settings_table(history.settings);
  if (!history.environment.empty()) content += element("h3", text("Environment")) + settings_table(history.environment);
  return section("Settings", content);
}

Markup problems_section(const RunHistory& history) {
  if (history.problems.empty()) return {};
  Markup list;
  for (std::size_t n = 0; n < std::min<std::size_t>(history.problems.size(), 50); ++n)
    list += element("li", text(clipped(history.problems[n], kLongestProblem)));
  return section("What could not be read", element("ul", list));
}

Markup section(const char* heading, const Markup& content) {
  return element("section", element("h2", text(heading)) + content);
}

Markup row(const char* cell, const std::vector<Markup>& cells) {
  Markup content;
  for (const Markup& one : cells) content += element(cell, one);
  return element("tr", content);
}

}  // namespace binade::doctor::report
