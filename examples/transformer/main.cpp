// binade-gpt: trains, evaluates and samples a GPT-2-class transformer.
#include "examples/transformer/gpt_task.h"

int main(int argc, char** argv) {
  return binade::examples::run_task<binade::examples::GptTask>(argc, argv, {binade::examples::add_sample});
}
