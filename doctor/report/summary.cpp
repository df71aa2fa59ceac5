#include "binade/doctor/report/summary.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace binade::doctor::report {

double recent_loss(const RunHistory& history) {
  double sum = 0;
  const std::int64_t count = std::clamp<std::int64_t>(std::ssize(history.committed) / 20, 1, 50);
  for (std::int64_t i = 0; i < count; ++i)
    sum += history.committed[history.committed.size() - 1 - static_cast<std::size_t>(i)].loss;
  return sum / static_cast<double>(count);
}

const Series* evaluation_of(const RunHistory& history, const std::string& name) {
  const auto at = std::ranges::find(history.evaluations, name, &std::pair<std::string, Series>::first);
  return at == history.evaluations.end() || at->second.empty() ? nullptr : &at->second;
}

Point lowest(const Series& series) { return *std::ranges::min_element(series, {}, &Point::value); }

std::vector<LeastHeadroom> least_forward_headroom(const RunHistory& history) {
  std::map<std::string, LeastHeadroom> by_module;
  for (const HeadroomLine& line : history.headroom)
    for (const amp::ModuleHeadroom& m : line.modules) {
      if (line.incident || std::isnan(m.forward)) continue;
      LeastHeadroom& nearest = by_module[m.module];
      if (m.forward < nearest.binades) nearest = {m.forward, m.module, line.step};
    }
  std::vector<LeastHeadroom> sorted;
  for (auto& [module, nearest] : by_module) sorted.push_back(std::move(nearest));
  std::ranges::sort(sorted, {}, &LeastHeadroom::binades);
  return sorted;
}

}  // namespace binade::doctor::report
