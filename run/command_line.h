#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace binade::amp {

/// Parses the command line, calls `body`, which runs the parsed sub-command, and returns its exit code. On an error,
/// prints a message whose last line is the cause to stderr, and returns the exit code of its type (docs/exit-codes.md).
/// For an unknown flag or a bad value, the message is one line with the nearest correct spelling, and the exit code is
/// 20. Ignores SIGPIPE and SIGXFSZ from here on, so that failed writes return errors.
int run_command_line(CLI::App& app, int argc, const char* const* argv, const std::function<int()>& body);

}  // namespace binade::amp
