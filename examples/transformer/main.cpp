// binade-gpt: trains, evaluates and samples a GPT-2-class transformer.
#include <CLI/CLI.hpp>

#include "amp/command_line.h"
#include "core/version.h"
#include "examples/transformer/commands.h"

int main(int argc, char** argv) {
  using namespace binade::examples;
  CLI::App app("Trains, evaluates and samples a GPT-2-class transformer.", "binade-gpt");
  app.set_version_flag("--version", binade::build_id());
  app.require_subcommand(1);
  const Command commands[] = {add_train(app), add_eval(app), add_sample(app), add_modules(app), add_bench(app)};
  return binade::amp::run_command_line(app, argc, argv, [&] {
    int code = 0;
    for (const Command& command : commands)
      if (const int result = command(); result != 0) code = result;
    return code;
  });
}
