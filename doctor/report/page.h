#pragma once

#include <string>

#include "binade/doctor/report/run_history.h"

namespace binade::doctor::report {

/// Returns the report as one self-contained HTML file. `made` is the last line of the page, which names the date and
/// the program.
std::string page(const RunHistory& history, const std::string& made);

}  // namespace binade::doctor::report
