// binade-unet: trains, evaluates and applies a U-Net that segments images.
#include <CLI/CLI.hpp>

#include "examples/unet/unet_commands.h"

int main(int argc, char** argv) {
  using namespace binade::examples;
  CLI::App app("Trains, evaluates and applies a U-Net that segments images.", "binade-unet");
  return run_program(app, argc, argv,
                     {add_train(app), add_preflight(app), add_init(app), add_eval(app), add_predict(app),
                      add_modules(app), add_bench(app), add_replay(app)});
}
