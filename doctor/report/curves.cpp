#include <algorithm>

#include "binade/doctor/report/format.h"
#include "binade/doctor/report/heat_map.h"
#include "binade/doctor/report/sections.h"

namespace binade::doctor::report {

namespace {

constexpr std::size_t kMostRows = 64;
constexpr std::size_t kMostCells = 6000;
constexpr std::size_t kLeastSmoothed = 60;  // series with fewer points are not smoothed

Series series_of(const RunHistory& history, double Attempt::*value) {
  Series series;
  for (const Attempt& a : history.committed) series.push_back({static_cast<double>(a.step), a.*value});
  return finite_of(series);
}

/// Adds a noisy series as a pale line, and its moving mean.
void add_noisy(LineChart& chart, const std::string& name, const std::string& color, const Series& series) {
  if (series.size() < kLeastSmoothed) {
    chart.lines.push_back({.name = name, .color = color, .points = series});
    return;
  }
  chart.lines.push_back({.name = "", .color = color, .stroke = Stroke::kPale, .points = series});
  chart.lines.push_back({.name = name, .color = color, .points = moving_mean(series, series.size() / 60)});
}

LineChart chart_of(const RunHistory& history, const std::string& title) {
  const auto first = history.committed.empty() ? 0 : history.committed.front().step;
  return {.title = title,
          .first_step = static_cast<double>(first <= 1 ? 0 : first),
          .last_step = static_cast<double>(std::max<std::int64_t>(history.last_step(), 1))};
}

LineChart loss_chart(const RunHistory& history) {
  LineChart chart = chart_of(history, "Loss");
  chart.wide = true;
  chart.height = 320;
  chart.marks = marks_of(history);
  for (const Attempt& a : history.aborted) chart.ticks_below.push_back(static_cast<double>(a.step));
  for (const Mark& mark : chart.marks) chart.last_step = std::max(chart.last_step, static_cast<double>(mark.step));
  add_noisy(chart, "training", "c1", series_of(history, &Attempt::loss));
  for (const auto& [name, series] : history.evaluations)
    if (name == "val_loss")
      chart.lines.push_back({.name = "validation", .color = "c2", .stroke = Stroke::kDots, .points = series});
  return chart;
}

LineChart evaluation_chart(const RunHistory& history) {
  LineChart chart = chart_of(history, "Evaluation");
  constexpr const char* kColors[] = {"c1", "c2", "c3", "c4"};
  for (const auto& [name, series] : history.evaluations)
    if (name != "val_loss" && chart.lines.size() < std::size(kColors))
      chart.lines.push_back(
          {.name = name, .color = kColors[chart.lines.size()], .stroke = Stroke::kDots, .points = series});
  if (chart.lines.size() == 1) chart.remark = chart.lines.front().name;
  return chart;
}

LineChart gradient_chart(const RunHistory& history) {
  LineChart chart = chart_of(history, "Gradient norm");
  chart.remark = "unscaled, before clipping";
  add_noisy(chart, "gradient norm", "c1", series_of(history, &Attempt::grad_norm));
  return chart;
}

LineChart lr_chart(const RunHistory& history) {
  LineChart chart = chart_of(history, "Learning rate");
  chart.scale = Scale::kLinear;
  chart.lines.push_back({.name = "learning rate", .color = "c1", .points = series_of(history, &Attempt::lr)});
  return chart;
}

/// Returns true if the run used a loss scale.
bool is_scaled(const RunHistory& history) {
  return std::ranges::any_of(history.committed, [](const Attempt& a) { return a.loss_scale > 1; });
}

LineChart scale_chart(const RunHistory& history) {
  const Series scales = series_of(history, &Attempt::loss_scale);
  LineChart chart = chart_of(history, "Loss scale");
  chart.scale = Scale::kLog2;
  for (const Attempt& a : history.aborted) chart.ticks_below.push_back(static_cast<double>(a.step));
  chart.lines.push_back({.name = "loss scale", .color = "c1", .stroke = Stroke::kStairs, .points = scales});
  return chart;
}

LineChart speed_chart(const RunHistory& history) {
  LineChart chart = chart_of(history, "Speed");
  chart.remark = history.unit.empty() ? "" : history.unit + " per second";
  add_noisy(chart, chart.remark.empty() ? "speed" : history.unit + "/s", "c1", finite_of(history.rate));
  return chart;
}

}  // namespace

Markup charts_section(const RunHistory& history) {
  std::vector<LineChart> charts{loss_chart(history)};
  if (LineChart evaluation = evaluation_chart(history); !evaluation.lines.empty()) charts.push_back(evaluation);
  charts.push_back(gradient_chart(history));
  charts.push_back(lr_chart(history));
  if (is_scaled(history)) charts.push_back(scale_chart(history));
  charts.push_back(speed_chart(history));
  // The first chart takes a whole row, the others are in rows of two. With an even number of charts, the last one is
  // alone in its row and takes all of it.
  charts.back().wide = charts.size() % 2 == 0;
  Markup content;
  for (const LineChart& chart : charts) content += draw(chart);
  return section("Curves", element("div", {{"class", "charts"}}, content));
}

Markup headroom_section(const RunHistory& history) {
  const HeatMap map = heat_map(history.headroom, kMostRows, kMostCells);
  if (map.rows.empty()) return section("Headroom", remark("No headroom was recorded (headroom.jsonl)."));
  std::string words =
      "How many times the largest value of a module may still double before its dtype cannot hold it: its results "
      "(forward) and its gradients, loss scale included (backward).";
  if (is_scaled(history)) words += " Backward is meant to be near to overflow: the loss scale seeks it.";
  if (map.left_out > 0)
    words += " " + counted(static_cast<std::int64_t>(map.left_out), "module") + " with more headroom left out.";
  return section("Headroom", element("p", text(words)) + draw(map, marks_of(history)));
}

}  // namespace binade::doctor::report
