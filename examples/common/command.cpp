#include "examples/common/command.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "binade/core/version.h"
#include "binade/run/command_line.h"

namespace binade::examples {

Command add_command(CLI::App& program, const char* name, const char* help, const std::shared_ptr<Settings>& table,
                    std::function<int()> body, const Argument& argument) {
  CLI::App* app = program.add_subcommand(name, help);
  table->declare(*app);
  if (argument.value) app->add_option(argument.name, *argument.value, argument.help)->required();
  return [app, table, argument, body = std::move(body)] { return app->parsed() ? body() : 0; };
}

int run_program(const char* name, const char* about, int argc, const char* const* argv,
                const std::function<std::vector<Command>(CLI::App&)>& declare) {
  CLI::App app(about, name);
  const std::vector<Command> commands = declare(app);
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
