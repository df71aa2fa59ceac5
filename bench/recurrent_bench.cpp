// Times forward and backward of an LSTM or a GRU on the CPU, at the request of bench/recurrent.py:
//     recurrent_bench lstm|gru BATCH STEPS IN HIDDEN LAYERS fp32|bf16 THREADS
// Prints "ready", then answers each line "step N" with the seconds that N repetitions took.
#include <fmt/core.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "bench/ceiling.h"
#include "bench/op_call.h"
#include "binade/amp/policy.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/runtime.h"
#include "binade/nn/recurrent.h"

int main(int argc, char** argv) {
  using namespace binade;
  if (argc != 9) {
    fmt::print(stderr, "usage: recurrent_bench lstm|gru BATCH STEPS IN HIDDEN LAYERS fp32|bf16 THREADS\n");
    return 20;
  }
  const auto number = [&](int i) { return std::stoll(argv[i]); };
  const Runtime runtime({.seed = 1, .threads = static_cast<int>(number(8))});
  const nn::RecurrentOptions options{.in = number(4), .hidden = number(5), .layers = number(6)};
  std::unique_ptr<nn::RecurrentLayers> layers;
  if (std::string(argv[1]) == "lstm")
    layers = std::make_unique<nn::Lstm>(options);
  else
    layers = std::make_unique<nn::Gru>(options);
  const PolicyScope policy(amp::Policy::by_name(argv[7]));
  const Variable x(
      bench::values(number(2) * number(3), options.in, DType::f32, 1).reshape({number(2), number(3), options.in}),
      true);
  const auto step = [&] {
    for (const auto& [name, parameter] : nn::named_parameters(*layers)) parameter->zero_grad();
    Variable(x).zero_grad();
    backward(sum((*layers)(x)));
  };
  step();
  fmt::print("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string word;
    int count = 0;
    if (!(words >> word >> count) || word != "step") break;
    const double begin = bench::seconds();
    for (int i = 0; i < count; ++i) step();
    fmt::print("{:.9f}\n", bench::seconds() - begin);
    std::fflush(stdout);
  }
}
