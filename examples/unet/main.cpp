// binade-unet: trains, evaluates and applies a U-Net that segments images.
#include <CLI/CLI.hpp>

#include "amp/command_line.h"
#include "core/version.h"
#include "examples/unet/commands.h"

int main(int argc, char** argv) {
  using namespace binade::examples;
  CLI::App app("Trains, evaluates and applies a U-Net that segments images.", "binade-unet");
  app.set_version_flag("--version", binade::build_id());
  app.require_subcommand(1);
  const Command commands[] = {add_train(app), add_eval(app), add_predict(app), add_modules(app), add_bench(app)};
  return binade::amp::run_command_line(app, argc, argv, [&] {
    int code = 0;
    for (const Command& command : commands)
      if (const int result = command(); result != 0) code = result;
    return code;
  });
}
