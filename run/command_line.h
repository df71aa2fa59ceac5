#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace binade::amp {

/// Parses the command line and runs `body`, which looks at which sub-command was parsed and returns the exit code.
/// Every error becomes text on stderr whose last line is the cause, and the exit code of its type (docs/exit-codes.md):
/// an unknown flag or a bad value is one line that names it and the nearest right spelling, exit 20. From here on
/// SIGPIPE and SIGXFSZ are ignored, so that the failed write reports the error.
int run_command_line(CLI::App& app, int argc, const char* const* argv, const std::function<int()>& body);

}  // namespace binade::amp
