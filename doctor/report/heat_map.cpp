#include "binade/doctor/report/heat_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "binade/doctor/report/axis.h"
#include "binade/doctor/report/format.h"
#include "binade/doctor/report/json_fields.h"

namespace binade::doctor::report {

namespace {

constexpr double kWidth = 1080, kGap = 18, kTop = 34, kRowHeight = 15, kLetter = 6.1;
constexpr std::size_t kLongestLabel = 36;
constexpr const char* kShades[] = {"overflow", "< 1", "< 2", "< 4", "< 8", "< 16", "more", "no values"};

/// Returns the median distance between sampled steps, which is the smallest number of steps that a column can cover.
std::int64_t spacing_of(const std::vector<HeadroomLine>& lines) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < lines.size(); ++i) gaps.push_back(static_cast<double>(lines[i].step - lines[i - 1].step));
  return std::max<std::int64_t>(1, std::llround(median_of(gaps)));
}

void lower_to(double& cell, double binades) {
  if (!std::isnan(binades)) cell = std::fmin(cell, binades);
}

/// Keeps at most `most` rows, those with the least headroom, in the model's order.
void keep_rows(HeatMap& map, std::size_t most) {
  if (map.rows.size() <= most) return;
  std::vector<double> least;
  for (const HeatMap::Row& row : map.rows) least.push_back(row.least);
  const auto last = least.begin() + static_cast<std::ptrdiff_t>(most) - 1;
  std::nth_element(least.begin(), last, least.end());
  const double bound = *last;
  map.left_out = map.rows.size();
  std::erase_if(map.rows, [&](const HeatMap::Row& row) { return row.least > bound; });
  if (map.rows.size() > most) map.rows.resize(most);
  map.left_out -= map.rows.size();
}

std::string label_of(const std::string& module) {
  if (module.empty()) return "(outside of modules)";
  if (module.size() <= kLongestLabel) return module;
  std::size_t at = module.size() - kLongestLabel;
  while (at < module.size() && (static_cast<unsigned char>(module[at]) & 0xC0) == 0x80) ++at;
  return "…" + module.substr(at);
}

/// The layout of the half of the heat map that shows one direction (forward or backward).
struct Panel {
  const HeatMap& map;
  const char* direction;
  double left, width;

  double x(std::size_t column) const {
    return left + width * static_cast<double>(column) / static_cast<double>(map.columns);
  }
  double bottom() const { return kTop + kRowHeight * static_cast<double>(map.rows.size()); }
  std::string steps_text(std::size_t begin, std::size_t end) const {
    const std::int64_t first = std::max<std::int64_t>(1,
                                                      map.first_step + map.stride * static_cast<std::int64_t>(begin));
    const std::int64_t last = map.first_step + map.stride * static_cast<std::int64_t>(end) - 1;
    return first == last ? "step " + count_text(first) : "steps " + count_text(first) + "–" + count_text(last);
  }
};

std::string title_of(const Panel& p, const HeatMap::Row& row, std::size_t begin, std::size_t end, double least) {
  std::string title = fmt::format("{}, {}, {}: {}", row.module.empty() ? label_of("") : row.module, p.direction,
                                  p.steps_text(begin, end), binades_text(least));
  if (std::isfinite(least) && least < 16)
    title += fmt::format("; {:.3g} times as large would overflow", std::exp2(least));
  return title;
}

/// Draws a row of cells; neighboring cells of one shade share a rectangle.
Markup cells(const Panel& p, const HeatMap::Row& row, const std::vector<double>& values, double y) {
  Markup svg;
  for (std::size_t begin = 0, end = 0; begin < values.size(); begin = end) {
    double least = values[begin];
    for (end = begin + 1; end < values.size() && !std::isnan(values[end]) && shade_of(values[end]) == shade_of(least);
         ++end)
      least = std::min(least, values[end]);
    if (std::isnan(least)) continue;
    svg += element("rect",
                   {{"class", fmt::format("h{}", shade_of(least))},
                    {"x", fmt::format("{:.2f}", p.x(begin))},
                    {"y", fmt::format("{:.0f}", y)},
                    {"width", fmt::format("{:.2f}", p.x(end) - p.x(begin))},
                    {"height", fmt::format("{:.0f}", kRowHeight - 1)}},
                   element("title", text(title_of(p, row, begin, end, least))));
  }
  return svg;
}

Markup frame(const Panel& p, const std::vector<Mark>& marks) {
  Markup svg = label(p.left, kTop - 18, "head", p.direction);
  const auto last = static_cast<double>(p.map.first_step + p.map.stride * static_cast<std::int64_t>(p.map.columns));
  const Axis steps(Scale::kSteps, static_cast<double>(p.map.first_step), last);
  for (const Tick& tick : steps.ticks(5)) {
    const double x = p.left + steps.at(tick.value) * p.width;
    if (x < p.left + p.width - 12) svg += label(x, p.bottom() + 14, "tick middle", tick.label);
  }
  for (const Mark& mark : marks) {
    const double at = steps.at(static_cast<double>(mark.step) + 0.5);
    if (at < 0 || at > 1) continue;
    svg += element("a", {{"class", mark.drill ? "mark drill" : "mark incident"}, {"href", mark.anchor}},
                   element("title", text(mark.title)) +
                       shape("path", {{"d", fmt::format("M{:.1f},{:.1f}l-4,-7h8z", p.left + at * p.width, kTop - 3)}}));
  }
  return svg;
}

Markup legend() {
  Markup entries = element("span", {{"class", "remark"}}, text("binades left to overflow"));
  for (int shade = 0; shade < 8; ++shade)
    entries += element("span", {{"class", fmt::format("shade h{}", shade)}}, text(kShades[shade]));
  return entries;
}

}  // namespace

int shade_of(double binades) {
  if (std::isinf(binades)) return binades < 0 ? 0 : 7;
  if (binades <= 0) return 0;
  if (binades >= 16) return 6;
  return binades < 1 ? 1 : 2 + static_cast<int>(std::floor(std::log2(binades)));
}

HeatMap heat_map(const std::vector<HeadroomLine>& lines, std::size_t most_rows, std::size_t most_cells) {
  HeatMap map;
  std::map<std::string, std::size_t> index;
  for (const HeadroomLine& line : lines)
    for (const amp::ModuleHeadroom& m : line.modules) {
      const auto [at, first] = index.try_emplace(m.module, map.rows.size());
      if (first) map.rows.push_back({.module = m.module, .least = std::numeric_limits<double>::infinity()});
      lower_to(map.rows[at->second].least, std::fmin(m.forward, m.backward));
    }
  keep_rows(map, most_rows);
  if (map.rows.empty()) return map;
  map.first_step = lines.front().step;
  const std::int64_t span = lines.back().step - map.first_step + 1;
  const auto most_columns = static_cast<std::int64_t>(
      std::clamp<std::size_t>(most_cells / (2 * map.rows.size()), 8, 120));
  map.stride = std::max(spacing_of(lines), (span + most_columns - 1) / most_columns);
  // Sampled steps are multiples of the distance between them. Therefore, if each column begins at a multiple of its
  // width in steps, all columns contain nearly the same number of sampled steps.
  if (map.stride > 1) map.first_step -= map.first_step % map.stride;
  map.columns = static_cast<std::size_t>((lines.back().step - map.first_step) / map.stride + 1);
  index.clear();
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    index[map.rows[i].module] = i;
    map.rows[i].forward.assign(map.columns, kMissing);
    map.rows[i].backward.assign(map.columns, kMissing);
  }
  for (const HeadroomLine& line : lines)
    for (const amp::ModuleHeadroom& m : line.modules)
      if (const auto at = index.find(m.module); at != index.end()) {
        const auto column = static_cast<std::size_t>((line.step - map.first_step) / map.stride);
        lower_to(map.rows[at->second].forward[column], m.forward);
        lower_to(map.rows[at->second].backward[column], m.backward);
      }
  return map;
}

Markup draw(const HeatMap& map, const std::vector<Mark>& marks) {
  std::size_t longest = 0;
  for (const HeatMap::Row& row : map.rows) longest = std::max(longest, label_of(row.module).size());
  const double labels = std::clamp(kLetter * static_cast<double>(longest), 60.0, 240.0) + 10;
  const double width = (kWidth - labels - kGap) / 2;
  const Panel forward{map, "forward", labels, width}, backward{map, "backward", labels + width + kGap, width};
  Markup svg = frame(forward, marks) + frame(backward, marks);
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    const HeatMap::Row& row = map.rows[i];
    const double y = kTop + kRowHeight * static_cast<double>(i);
    svg += label(labels - 8, y + 11, "row end", label_of(row.module));
    svg += cells(forward, row, row.forward, y) + cells(backward, row, row.backward, y);
  }
  return element("figure", {{"class", "chart wide heat"}},
                 element("figcaption", legend()) +
                     element("svg",
                             {{"viewBox", fmt::format("0 0 {} {:.0f}", kWidth, forward.bottom() + 20)},
                              {"role", "img"},
                              {"aria-label", "headroom by module and step"}},
                             svg));
}

}  // namespace binade::doctor::report
