// A program outside Binade's tree: it includes the installed headers, links the library, trains a layer and, if it is
// told a path, writes the layer as a model file.
#include <binade.h>
#include <binade/core/tensor.h>

#include <cstdio>
#include <vector>

#include "core/error.h"

using namespace binade;

int main(int argc, char** argv) {
  Runtime runtime({.seed = 1});
  nn::Linear layer({.in = 2, .out = 1});
  optim::Sgd optimizer(layer, {.lr = 0.1});
  const Tensor x = Tensor::from(std::vector<float>{0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const Tensor y = Tensor::from(std::vector<float>{1, 3, 0, 2}, {4, 1});  // y = 1 - x0 + 2 x1
  double loss = 1;
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    const Variable distance = nn::mse(layer(x), y);
    backward(distance);
    optimizer.step();
    loss = distance.item();
  }
  if (argc > 1) {
    const auto tokenizer = io::make_byte_tokenizer();
    save_model(layer, argv[1],
               {.architecture = "2 inputs", .tokenizer = tokenizer.get(), .policy = amp::Policy::bf16()});
  }
  std::printf("%s: loss %g\n", build_id().c_str(), loss);
  return loss < kWorstLoss ? 0 : 1;
}
