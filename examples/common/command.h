#pragma once

#include <functional>
#include <vector>

namespace CLI {
class App;
}

namespace binade::examples {

/// A sub-command: declared on the program's command line; called after parsing, does its work if it was the one given
/// and returns the exit code.
using Command = std::function<int()>;

/// The rest of a program's main(): parses the command line, runs the command that was given, returns the exit code.
int run_program(CLI::App& app, int argc, const char* const* argv, const std::vector<Command>& commands);

}  // namespace binade::examples
