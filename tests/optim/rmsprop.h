#pragma once

#include "binade/autograd/functions/elementwise.h"
#include "binade/optim/custom_optimizer.h"

/// An example of an optimizer that a user writes.
namespace user {

namespace optim = binade::optim;
using binade::Variable;

struct RmspropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  std::vector<optim::ParameterGroup> groups{};
};

/// RMSprop as PyTorch defines it.
class Rmsprop final : public optim::CustomOptimizer {
 public:
  explicit Rmsprop(std::vector<optim::NamedParameter> parameters, const RmspropOptions& o = {})
      : CustomOptimizer(std::move(parameters), {.kind = "rmsprop",
                                                .lr = o.lr,
                                                .state = {"square_average", "gradient_average", "momentum"},
                                                .groups = o.groups}),
        options_(groups().options_of(o)) {}
  template <class Model>
  requires requires(Model& model) { optim::parameters_of(model); }
  explicit Rmsprop(Model& model, const RmspropOptions& o = {}) : Rmsprop(optim::parameters_of(model), o) {}

  void update(optim::ParameterUpdate& u) const override {
    const RmspropOptions& o = options_[u.target.parameter_class];
    Variable g = u.gradient;
    if (u.target.decays && o.weight_decay > 0) g = g + o.weight_decay * u.weight;
    Variable& square = u.state("square_average");
    square = o.alpha * square + (1 - o.alpha) * (g * g);
    Variable variance = square;
    if (o.centered) {
      Variable& average = u.state("gradient_average");
      average = average + (1 - o.alpha) * (g - average);
      variance = square - average * average;
    }
    Variable step = g / (sqrt(variance) + o.eps);
    if (o.momentum > 0) step = u.state("momentum") = o.momentum * u.state("momentum") + step;
    u.weight = u.weight - u.target.lr * step;
  }

  optim::UpdateFacts facts_of(std::size_t c) const override {
    return {.beta2 = options_[c].alpha, .eps = options_[c].eps, .divides_by_root = true, .unit_steps = true};
  }

 private:
  std::vector<RmspropOptions> options_;
};

}  // namespace user
