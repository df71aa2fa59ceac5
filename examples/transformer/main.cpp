// binade-gpt: trains, evaluates and samples a GPT-2-class transformer.
#include <CLI/CLI.hpp>

#include "examples/transformer/gpt_commands.h"

int main(int argc, char** argv) {
  using namespace binade::examples;
  CLI::App app("Trains, evaluates and samples a GPT-2-class transformer.", "binade-gpt");
  return run_program(app, argc, argv,
                     {add_train(app), add_preflight(app), add_init(app), add_eval(app), add_sample(app),
                      add_modules(app), add_bench(app), add_replay(app)});
}
