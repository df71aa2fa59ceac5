#include "binade/doctor/report/line_chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace binade::doctor::report {

namespace {

constexpr std::size_t kMostPoints = 1000;
constexpr std::size_t kMostMarks = 200;

/// The layout of a chart, in the units of the SVG's viewBox attribute.
struct Frame {
  double width, height;
  double left = 56, right = 14, top = 14, bottom = 26;
  Axis steps, values;

  double x(double step) const { return left + steps.at(step) * (width - left - right); }
  double y(double value) const { return height - bottom - values.at(value) * (height - top - bottom); }
  double x_end() const { return width - right; }
  double y_end() const { return height - bottom; }
};

std::string px(double coordinate) { return fmt::format("{:.1f}", coordinate); }

Markup grid(const Frame& f) {
  Markup svg;
  for (const Tick& tick : f.values.ticks(5)) {
    const std::string y = px(f.y(tick.value));
    svg += shape("line", {{"class", "grid"}, {"x1", px(f.left)}, {"x2", px(f.x_end())}, {"y1", y}, {"y2", y}});
    svg += label(f.left - 8, f.y(tick.value) + 3.5, "tick end", tick.label);
  }
  for (const Tick& tick : f.steps.ticks(f.width > 700 ? 10 : 5))
    svg += label(f.x(tick.value), f.height - 8, "tick middle", tick.label);
  const std::string floor = px(f.y_end());
  svg += shape("line", {{"class", "axis"}, {"x1", px(f.left)}, {"x2", px(f.x_end())}, {"y1", floor}, {"y2", floor}});
  return svg;
}

std::string svg_points(const Frame& f, const Series& points, bool stairs) {
  std::string list;
  const Point* before = nullptr;
  for (const Point& p : points) {
    if (stairs && before != nullptr) list += px(f.x(p.step)) + "," + px(f.y(before->value)) + " ";
    list += px(f.x(p.step)) + "," + px(f.y(p.value)) + " ";
    before = &p;
  }
  if (!list.empty()) list.pop_back();
  return list;
}

Markup draw_line(const Frame& f, const Line& line) {
  const bool stairs = line.stroke == Stroke::kStairs;
  const Series points = keep_extremes(stairs ? corners_of(line.points) : line.points,
                                      stairs ? kMostPoints / 2 : kMostPoints);
  const bool has_dots = line.stroke == Stroke::kDots || points.size() == 1;
  const std::string kind = line.color + (line.stroke == Stroke::kPale ? " pale" : "");
  Markup svg = shape("polyline",
                     {{"class", "line " + kind}, {"data-name", line.name}, {"points", svg_points(f, points, stairs)}});
  if (has_dots && points.size() <= 60)
    for (const Point& p : points)
      svg += shape("circle", {{"class", "dot " + kind}, {"cx", px(f.x(p.step))}, {"cy", px(f.y(p.value))}, {"r", "3"}});
  return svg;
}

Markup draw_mark(const Frame& f, const Mark& mark) {
  const double x = f.x(static_cast<double>(mark.step));
  const std::string kind = mark.drill ? "mark drill" : "mark incident";
  const Markup shapes = element("title", text(mark.title)) +
                        shape("line", {{"x1", px(x)}, {"x2", px(x)}, {"y1", px(f.top)}, {"y2", px(f.y_end())}}) +
                        shape("path", {{"d", fmt::format("M{:.1f},{:.1f}l5,5l-5,5l-5,-5z", x, f.top - 10)}});
  return element("a", {{"class", kind}, {"href", mark.anchor}}, shapes);
}

/// Draws a tick at the chart's lower edge for each of the steps; ticks at the same position are drawn once.
Markup draw_ticks_below(const Frame& f, const std::vector<double>& steps) {
  std::set<std::string> positions;
  for (const double step : steps) positions.insert(fmt::format("{:.0f}", f.x(step)));
  std::string path;
  for (const std::string& x : positions) path += fmt::format("M{},{:.0f}v-7", x, f.y_end());
  return path.empty() ? Markup() : shape("path", {{"class", "aborted"}, {"d", path}});
}

Markup legend(const LineChart& chart) {
  Markup entries;
  std::size_t named = 0;
  for (const Line& line : chart.lines) {
    if (line.name.empty()) continue;
    ++named;
    entries += element("span", {{"class", "key " + line.color}}, text(line.name));
  }
  if (named < 2) entries = {};
  if (std::ranges::any_of(chart.marks, [](const Mark& m) { return !m.drill; }))
    entries += element("span", {{"class", "key incident"}}, text("incident"));
  if (std::ranges::any_of(chart.marks, [](const Mark& m) { return m.drill; }))
    entries += element("span", {{"class", "key drill"}}, text("drill"));
  if (!chart.ticks_below.empty()) entries += element("span", {{"class", "key aborted"}}, text("skipped attempt"));
  return entries;
}

Markup caption(const LineChart& chart) {
  return element("figcaption", element("b", text(chart.title)) +
                                   element("span", {{"class", "remark"}}, text(chart.remark)) +
                                   element("span", {{"class", "legend"}}, legend(chart)) + element("output", Markup()));
}

const char* name_of(Scale scale) {
  if (scale == Scale::kLog2) return "log2";
  return scale == Scale::kLog10 ? "log10" : "linear";
}

std::string axis_range(double a, double b, double c, double d) {
  return fmt::format("{} {} {:.1f} {:.1f}", a, b, c, d);
}

}  // namespace

Markup draw(const LineChart& given) {
  LineChart chart = given;
  std::vector<Series> all;
  for (Line& line : chart.lines) {
    line.points = finite_of(line.points);
    all.push_back(line.points);
  }
  const std::string kind = chart.wide ? "chart wide" : "chart";
  if (std::ranges::all_of(all, &Series::empty))
    return element("figure", {{"class", kind}}, caption(chart) + remark("Nothing was recorded."));
  const Frame f{.width = chart.wide ? 1080.0 : 530.0,
                .height = chart.height,
                .steps = Axis(Scale::kSteps, chart.first_step, chart.last_step),
                .values = chart.scale ? Axis::around(all, *chart.scale) : Axis::around(all)};
  Markup svg = grid(f);
  if (chart.marks.size() > kMostMarks) chart.marks.resize(kMostMarks);
  svg += draw_ticks_below(f, chart.ticks_below);
  for (const Line& line : chart.lines) svg += draw_line(f, line);
  for (const Mark& mark : chart.marks) svg += draw_mark(f, mark);
  svg += shape("line", {{"class", "cursor"}, {"y1", px(f.top)}, {"y2", px(f.y_end())}, {"visibility", "hidden"}});
  return element("figure", {{"class", kind}},
                 caption(chart) + element("svg",
                                          {{"viewBox", fmt::format("0 0 {} {}", f.width, f.height)},
                                           {"role", "img"},
                                           {"aria-label", chart.title + " by step"},
                                           {"data-x", axis_range(f.steps.low(), f.steps.high(), f.left, f.x_end())},
                                           {"data-y", axis_range(f.values.low(), f.values.high(), f.y_end(), f.top)},
                                           {"data-scale", name_of(f.values.scale())}},
                                          svg));
}

}  // namespace binade::doctor::report
