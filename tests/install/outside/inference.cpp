// A program that only uses a trained model: it links the library for inference, and reads the model file of main.cpp.
#include <binade/inference.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace binade;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Runtime runtime;
  const ModelFile file(argv[1]);
  nn::Linear layer({.in = std::atoi(file.architecture().c_str()), .out = 1});
  file.load(layer);
  layer.eval();
  const InferenceMode inference;
  const PolicyScope policy(file.policy());
  const Variable y = layer(Tensor::from(std::vector<float>{1, 1}, {1, 2}));
  const std::vector<std::int32_t> tokens = file.tokenizer()->encode("y");
  std::printf("y(1, 1) = %.3f, token %d\n", y.item(), tokens[0]);
  return 0;
}
