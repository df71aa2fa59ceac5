#include "examples/common/command.h"

#include <CLI/CLI.hpp>

#include "binade/core/version.h"
#include "binade/run/command_line.h"

namespace binade::examples {

int run_program(CLI::App& app, int argc, const char* const* argv, const std::vector<Command>& commands) {
  app.set_version_flag("--version", std::string(build_id()));
  app.require_subcommand(1);
  return amp::run_command_line(app, argc, argv, [&] {
    int code = 0;
    for (const Command& command : commands)
      if (const int result = command(); result != 0) code = result;
    return code;
  });
}

}  // namespace binade::examples
