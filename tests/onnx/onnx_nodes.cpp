// Runs nodes of ONNX graphs with Binade's functions, for run_nodes.py. Reads cases (golden_text.py) from standard
// input, and writes the answer to each case after its line "end" (text.h). `onnx_nodes --operators` prints the
// operators of the table.
#include <cstdio>
#include <iostream>
#include <string>

#include "binade/autograd/inference_mode.h"
#include "binade/core/runtime.h"
#include "tests/onnx/text.h"

int main(int argc, char** argv) {
  using namespace binade;
  if (argc > 1 && std::string(argv[1]) == "--operators") {
    for (const auto& [name, function] : onnx::table()) std::cout << name << "\n";
    return 0;
  }
  const Runtime runtime({.seed = 1, .threads = 1});
  const InferenceMode no_gradients;
  std::string text;
  for (std::string line; std::getline(std::cin, line);) {
    text += line + "\n";
    if (line != "end") continue;
    for (const golden::Case& source : golden::parse(text, "standard input")) std::cout << onnx::answer(source);
    std::cout << std::flush;
    text.clear();
  }
  return 0;
}
