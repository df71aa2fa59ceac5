#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  ///< multiplies weights by 1 - lr weight_decay (decoupled from the gradient)
  DType moment_dtype = DType::f32;
  DecayFilter decays{};  ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// Lion (Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023, algorithm 2). w is a weight,
/// g its gradient, m its moment:
///   w *= 1 - lr weight_decay;  w -= lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g.
class Lion final : public Optimizer {
 public:
  explicit Lion(std::vector<NamedParameter> parameters, const LionOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Lion(Model& model, const LionOptions& options = {}) : Lion(parameters_of(model), options) {}

  const LionOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;

 private:
  std::vector<LionOptions> options_;  // one per class of groups()
};

}  // namespace binade::optim
