#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "examples/common/settings.h"

namespace CLI {
class App;
}

namespace binade::examples {

/// A sub-command that is declared on the program's command line. It is called after parsing; it runs if the user gave
/// it, and returns the exit code.
using Command = std::function<int()>;

/// A required positional argument; parsing stores it in `value`.
struct Argument {
  const char *name = nullptr, *help = nullptr;
  std::shared_ptr<std::string> value{};
};

/// Declares the sub-command `name` with the flags of `table` and, if `argument.value` is not null, the positional
/// argument. The command runs `body`.
Command add_command(CLI::App& program, const char* name, const char* help, const std::shared_ptr<Settings>& table,
                    std::function<int()> body, const Argument& argument = {});

/// Declares the sub-command `name`, whose settings are a `Setup`: `add_settings` adds them to the command's table, and
/// `body` gets the table and the settings.
template <class Setup>
Command add_command(CLI::App& program, const char* name, const char* help,
                    const std::function<void(Settings&, Setup&)>& add_settings,
                    std::function<int(Settings&, Setup&)> body, const Argument& argument = {}) {
  auto setup = std::make_shared<Setup>();
  auto table = std::make_shared<Settings>();
  add_settings(*table, *setup);
  return add_command(
      program, name, help, table, [=] { return body(*table, *setup); }, argument);
}

/// Implements main(): declares the commands with `declare`, parses the command line, runs the command that was given
/// and returns the exit code.
int run_program(const char* name, const char* about, int argc, const char* const* argv,
                const std::function<std::vector<Command>(CLI::App&)>& declare);

}  // namespace binade::examples
