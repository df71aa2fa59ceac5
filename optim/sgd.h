#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;  ///< weight_decay w is added to the gradient (L2)
  bool nesterov = false;    ///< requires momentum > 0 and dampening 0
  DType moment_dtype = DType::f32;
  DecayFilter decays{};  ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// Stochastic gradient descent with momentum, as PyTorch defines it. w is a weight, g its gradient, m its moment:
///   g += weight_decay w;  m = g at the first update, else momentum m + (1 - dampening) g;
///   d = nesterov ? g + momentum m : m (d = g if momentum is 0);  w -= lr d.
class Sgd final : public Optimizer {
 public:
  explicit Sgd(std::vector<NamedParameter> parameters, const SgdOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Sgd(Model& model, const SgdOptions& options = {}) : Sgd(parameters_of(model), options) {}

  const SgdOptions& options() const { return options_.front(); }

 protected:
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;

 private:
  std::vector<SgdOptions> options_;  // one per class of groups()
};

}  // namespace binade::optim
