#pragma once

#include <limits>
#include <string>
#include <vector>

#include "binade/doctor/report/run_history.h"

namespace binade::doctor::report {

/// Returns the mean training loss of the last steps, which varies less than a single loss. There must be a committed
/// step.
double recent_loss(const RunHistory& history);

/// Returns the values of an evaluation's metric, or null if there are none.
const Series* evaluation_of(const RunHistory& history, const std::string& name);

/// Returns the point with the lowest value of a nonempty series.
Point lowest(const Series& series);

/// The least headroom of a module in forward, over steps without an incident.
struct LeastHeadroom {
  double binades = std::numeric_limits<double>::infinity();
  std::string module{};
  std::int64_t step = 0;
};
/// Returns the least headroom of every module, smallest first.
std::vector<LeastHeadroom> least_forward_headroom(const RunHistory& history);

}  // namespace binade::doctor::report
