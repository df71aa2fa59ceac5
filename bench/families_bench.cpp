// Times ops of several families on the CPU, at the request of bench/families.py; bench/peers/families.py times the same
// in PyTorch.
//     families_bench THREADS
// Prints "ready", then answers the line "list" with the names of all measurements in one line, separated by "|", and
// each line "COUNT NAME" with the seconds that COUNT repetitions took. The first repetition of a name is not timed.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench/ceiling.h"
#include "binade/autograd/functions.h"
#include "binade/autograd/inference_mode.h"
#include "binade/core/make.h"
#include "binade/core/runtime.h"
#include "binade/nn/recurrent.h"

namespace binade::bench {
namespace {

/// One repetition of a measurement.
using Repetition = std::function<void()>;
/// All measurements: the name, and a function that draws the inputs and returns the repetition.
using Makers = std::vector<std::pair<std::string, std::function<Repetition()>>>;

/// Repeats f without gradients.
template <class F>
Repetition forward_only(F f) {
  return [f] {
    const InferenceMode no_gradients;
    f();
  };
}

/// Repeats forward and backward of the sum of f(), with gradients of all `inputs`.
template <class F>
Repetition with_backward(std::vector<Variable> inputs, F f) {
  return [inputs, f]() mutable {
    for (Variable& input : inputs) input.zero_grad();
    backward(sum(f(inputs)));
  };
}

Variable trained(const Shape& shape) { return {randn(shape), true}; }

void add_index(Makers& all) {
  all.emplace_back("gather of 4096 x 1024 along rows", [] {
    return forward_only([x = randn({4096, 1024}), i = randint(0, 1024, {4096, 1024})] { gather(x, 1, i); });
  });
  all.emplace_back("gather of 4096 x 1024 along columns", [] {
    return forward_only([x = randn({4096, 1024}), i = randint(0, 4096, {4096, 1024})] { gather(x, 0, i); });
  });
  all.emplace_back("scatter_add of 4096 x 1024 along rows", [] {
    return forward_only([x = Tensor::zeros({4096, 1024}), i = randint(0, 1024, {4096, 1024}), s = randn({4096, 1024})] {
      scatter_add(x, 1, i, s);
    });
  });
  all.emplace_back("index_add of 65536 rows of 64 to 4096", [] {
    return forward_only([x = Tensor::zeros({4096, 64}), i = randint(0, 4096, {65536}), s = randn({65536, 64})] {
      index_add(x, 0, i, s);
    });
  });
}

void add_order(Makers& all) {
  all.emplace_back("sort of 64 x 16384", [] { return forward_only([x = randn({64, 16384})] { sort(x, 1); }); });
  all.emplace_back("sort of 1048576", [] { return forward_only([x = randn({1048576})] { sort(x); }); });
  all.emplace_back("topk 50 of 64 x 32000", [] { return forward_only([x = randn({64, 32000})] { topk(x, 50); }); });
  all.emplace_back("topk 5 of 1024 x 1000", [] { return forward_only([x = randn({1024, 1000})] { topk(x, 5); }); });
  all.emplace_back("cumsum of 1024 x 4096 along rows", [] {
    return forward_only([x = randn({1024, 4096})] { cumsum(x, 1); });
  });
  all.emplace_back("cumsum of 1024 x 4096 along columns", [] {
    return forward_only([x = randn({1024, 4096})] { cumsum(x, 0); });
  });
}

void add_products(Makers& all) {
  all.emplace_back("einsum bqhd,bkhd->bhqk of 8 x 128 x 8 x 64", [] {
    return forward_only([q = randn({8, 128, 8, 64}), k = randn({8, 128, 8, 64})] {
      einsum("bqhd,bkhd->bhqk", {q, k});
    });
  });
  all.emplace_back("einsum bij,bjk->bik of 64 x 128 x 128", [] {
    return forward_only([a = randn({64, 128, 128}), b = randn({64, 128, 128})] { einsum("bij,bjk->bik", {a, b}); });
  });
  all.emplace_back("einsum bi,ij,bj->b of 4096 x 256", [] {
    return forward_only([a = randn({4096, 256}), m = randn({256, 256}), b = randn({4096, 256})] {
      einsum("bi,ij,bj->b", {a, m, b});
    });
  });
  const auto definite = [](const Shape& shape) {
    const Tensor x = randn(shape);
    const Variable n = eye(shape.cols());
    return matmul(x, x, {.transpose_b = true}) + n * static_cast<double>(shape.cols());
  };
  all.emplace_back("cholesky of 1024 matrices of 16 rows", [definite] {
    return forward_only([a = definite({1024, 16, 16})] { cholesky(a); });
  });
  all.emplace_back("cholesky of 1024 rows", [definite] {
    return forward_only([a = definite({1024, 1024})] { cholesky(a); });
  });
}

void add_layers(Makers& all) {
  all.emplace_back("conv1d of 16 x 1024 x 64 to 128, kernel 3, with backward", [] {
    return with_backward({trained({16, 1024, 64}), trained({128, 3, 64})},
                         [](const auto& in) { return conv1d(in[0], in[1], {}, {.padding = 1}); });
  });
  all.emplace_back("conv1d of 8 x 4096 x 64, each channel, kernel 7, with backward", [] {
    return with_backward({trained({8, 4096, 64}), trained({64, 7, 1})},
                         [](const auto& in) { return conv1d(in[0], in[1], {}, {.padding = 3, .groups = 64}); });
  });
  all.emplace_back("conv3d of 2 x 16 x 64 x 64 x 16 to 32, kernel 3, with backward", [] {
    return with_backward({trained({2, 16, 64, 64, 16}), trained({32, 3, 3, 3, 16})},
                         [](const auto& in) { return conv3d(in[0], in[1], {}, {.padding = 1}); });
  });
  const auto recurrent = [](std::shared_ptr<nn::RecurrentLayers> layers) -> Repetition {
    return [layers, x = trained({32, 64, 64})]() mutable {
      for (const auto& [name, parameter] : nn::named_parameters(*layers)) parameter->zero_grad();
      x.zero_grad();
      backward(sum((*layers)(x)));
    };
  };
  all.emplace_back("lstm of 32 x 64 x 64, hidden 128, with backward", [recurrent] {
    return recurrent(std::make_shared<nn::Lstm>(nn::RecurrentOptions{.in = 64, .hidden = 128}));
  });
  all.emplace_back("gru of 32 x 64 x 64, hidden 128, with backward", [recurrent] {
    return recurrent(std::make_shared<nn::Gru>(nn::RecurrentOptions{.in = 64, .hidden = 128}));
  });
}

Makers measurements() {
  Makers all;
  add_index(all);
  add_order(all);
  add_products(all);
  add_layers(all);
  return all;
}

}  // namespace
}  // namespace binade::bench

int main(int argc, char** argv) {
  using namespace binade;
  if (argc != 2) {
    fmt::print(stderr, "usage: families_bench THREADS\n");
    return 20;
  }
  const Runtime runtime({.seed = 1, .threads = std::atoi(argv[1])});
  const bench::Makers makers = bench::measurements();
  std::map<std::string, bench::Repetition> made;  // only the last measurement, because inputs are large
  fmt::print("ready\n");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "list") {
      std::vector<std::string> names;
      for (const auto& [name, maker] : makers) names.push_back(name);
      fmt::print("{}\n", fmt::join(names, "|"));
    } else {
      std::istringstream words(line);
      int count = 0;
      std::string name;
      words >> count >> std::ws;
      std::getline(words, name);
      if (!made.contains(name)) {
        made.clear();
        for (const auto& [known, maker] : makers)
          if (known == name) made[name] = maker();
        if (made.empty()) return 20;
        made[name]();
      }
      const double begin = bench::seconds();
      for (int i = 0; i < count; ++i) made[name]();
      fmt::print("{:.9f}\n", bench::seconds() - begin);
    }
    std::fflush(stdout);
  }
}
