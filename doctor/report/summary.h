#pragma once

#include <limits>
#include <string>
#include <vector>

#include "binade/doctor/report/run_history.h"

namespace binade::doctor::report {

/// The mean training loss of the last steps: one step says little. There must be a committed step.
double late_loss(const RunHistory& history);

/// The values of an evaluation's number; null where there are none.
const Series* evaluation_of(const RunHistory& history, const std::string& name);

/// The point of the lowest value; of a series that is not empty.
Point lowest(const Series& series);

/// How near to overflow a module came forward, in steps without an incident.
struct Nearest {
  double binades = std::numeric_limits<double>::infinity();
  std::string module{};
  std::int64_t step = 0;
};
/// Of every module, nearest first.
std::vector<Nearest> nearest_forward(const RunHistory& history);

}  // namespace binade::doctor::report
