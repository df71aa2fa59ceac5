#pragma once

#include <string>

#include "binade/doctor/report/run_history.h"

namespace binade::doctor::report {

/// Returns the report as one self-contained HTML file. `made` is its last line: date and program.
std::string page(const RunHistory& history, const std::string& made);

/// The style sheet and the script of the page.
extern const char* const kStyle;
extern const char* const kScript;

}  // namespace binade::doctor::report
