#pragma once

#include <string>

#include "binade/doctor/report/run_history.h"

namespace binade::doctor::report {

/// The whole page: one HTML file that needs nothing beside it. `made` is when and by what, for its last line.
std::string page(const RunHistory& history, const std::string& made);

/// The style sheet and the script of the page.
extern const char* const kStyle;
extern const char* const kScript;

}  // namespace binade::doctor::report
