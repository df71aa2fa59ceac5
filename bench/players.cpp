// Times the backward passes of a GAN's step with and without the gradients of the weights that the phase does not train
// (docs/decisions/0081-untrained-parameters-get-no-gradients-in-backward.md), in turn. Prints the medians.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "binade.h"
#include "binade/autograd/excluded_leaves.h"

namespace {

using namespace binade;  // NOLINT(google-build-using-namespace): a program

struct Player : nn::Module {
  nn::Linear layers[4] = {nn::Linear({.in = 512, .out = 512}), nn::Linear({.in = 512, .out = 512}),
                          nn::Linear({.in = 512, .out = 512}), nn::Linear({.in = 512, .out = 512})};
  void visit(nn::Visitor& v) override {
    for (int i = 0; i < 4; ++i) v("layer" + std::to_string(i), layers[i]);
  }
  Variable forward(const Variable& x) override {
    Variable h = x;
    for (nn::Linear& layer : layers) h = relu(layer(h));
    return h;
  }
  std::vector<std::shared_ptr<Variable::State>> leaves() {
    std::vector<std::shared_ptr<Variable::State>> all;
    for (const auto& [name, parameter] : nn::named_parameters(*this)) all.push_back(parameter->state());
    return all;
  }
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

}  // namespace

int main() {
  Runtime runtime({.seed = 1, .threads = 2});
  Player critic, maker;
  const Tensor noise = randn({64, 512});
  struct Phase {
    const char* name;
    Player* other;
    std::vector<double> all{}, excluded{}, step_all{}, step_excluded{};
  } phases[] = {{"critic (fakes not detached)", &maker}, {"generator", &critic}};
  for (int repeat = 0; repeat < 60; ++repeat)
    for (Phase& phase : phases)
      for (const bool excludes : {false, true}) {
        for (Player* player : {&critic, &maker})
          for (const auto& [name, parameter] : nn::named_parameters(*player)) parameter->zero_grad();
        const auto begin = std::chrono::steady_clock::now();
        const Variable loss = mean(square(critic(maker(noise))));
        const auto forward = std::chrono::steady_clock::now();
        {
          const auto leaves = phase.other->leaves();
          const ExcludedLeaves scope(excludes ? leaves : std::vector<std::shared_ptr<Variable::State>>());
          backward(loss);
        }
        const auto end = std::chrono::steady_clock::now();
        const auto ms = [&](auto from) { return std::chrono::duration<double, std::milli>(end - from).count(); };
        (excludes ? phase.excluded : phase.all).push_back(ms(forward));
        (excludes ? phase.step_excluded : phase.step_all).push_back(ms(begin));
      }
  for (const Phase& phase : phases)
    std::printf("%-28s backward %.2f ms -> %.2f ms; with forward %.2f ms -> %.2f ms\n", phase.name, median(phase.all),
                median(phase.excluded), median(phase.step_all), median(phase.step_excluded));
}
