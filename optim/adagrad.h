#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;      ///< update t has the rate lr / (1 + (t - 1) lr_decay)
  double weight_decay = 0;  ///< weight_decay w is added to the gradient (L2)
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  DType moment_dtype = DType::f32;
  DecayFilter decays{};  ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// Adagrad (Duchi et al., "Adaptive subgradient methods for online learning and stochastic optimization", JMLR 2011),
/// as PyTorch defines it. w is a weight, g its gradient, t the number of updates of this parameter, from 1:
///   g += weight_decay w;  v += g^2, from initial_accumulator_value on;
///   w -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(v) + eps).
class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(std::vector<NamedParameter> parameters, const AdagradOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Adagrad(Model& model, const AdagradOptions& options = {}) : Adagrad(parameters_of(model), options) {}

  const AdagradOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;

 private:
  std::vector<AdagradOptions> options_;  // one per class of groups()
};

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;  ///< share of the old average in both averages of squares
  double eps = 1e-6;
  double weight_decay = 0;  ///< weight_decay w is added to the gradient (L2)
  DType moment_dtype = DType::f32;
  DecayFilter decays{};  ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// Adadelta (Zeiler, "ADADELTA: an adaptive learning rate method", 2012), as PyTorch defines it:
///   g += weight_decay w;  v = rho v + (1 - rho) g^2;  d = sqrt(u + eps) / sqrt(v + eps) * g;
///   u = rho u + (1 - rho) d^2;  w -= lr d.
class Adadelta final : public Optimizer {
 public:
  explicit Adadelta(std::vector<NamedParameter> parameters, const AdadeltaOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Adadelta(Model& model, const AdadeltaOptions& options = {}) : Adadelta(parameters_of(model), options) {}

  const AdadeltaOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;

 private:
  std::vector<AdadeltaOptions> options_;  // one per class of groups()
};

}  // namespace binade::optim
