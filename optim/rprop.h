#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct RpropOptions {
  double lr = 1e-2;                        ///< first step size of every weight
  double eta_minus = 0.5, eta_plus = 1.2;  ///< factors of a step size if its gradient changes, or keeps, its sign
  double step_min = 1e-6, step_max = 50;   ///< limits of the step sizes
  DType moment_dtype = DType::f32;
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// Rprop (Riedmiller & Braun, "A direct adaptive method for faster backpropagation learning", 1993), as PyTorch defines
/// it, for gradients of the whole training set. Each weight has a step size, which grows while the gradient keeps its
/// sign and shrinks when the sign changes; the weight is then not changed in that update. The learning rate matters in
/// a parameter's first update only.
class Rprop final : public Optimizer {
 public:
  explicit Rprop(std::vector<NamedParameter> parameters, const RpropOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Rprop(Model& model, const RpropOptions& options = {}) : Rprop(parameters_of(model), options) {}

  const RpropOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;

 private:
  std::vector<RpropOptions> options_;  // one per class of groups()
};

struct AsgdOptions {
  double lr = 1e-2;
  double lambd = 1e-4;      ///< each update multiplies weights by 1 - lambd eta
  double alpha = 0.75;      ///< power with which eta falls
  double t0 = 1e6;          ///< update after which weights are averaged
  double weight_decay = 0;  ///< weight_decay w is added to the gradient (L2)
  DecayFilter decays{};     ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// Averaged SGD (Polyak & Juditsky, "Acceleration of stochastic approximation by averaging", 1992), as PyTorch defines
/// it. t is the number of updates of this parameter, from 1:
///   eta = lr / (1 + lambd lr (t - 1))^alpha;  g += weight_decay w;  w = (1 - lambd eta) w - eta g;
///   a += (w - a) / max(1, t - 1 - t0).
/// Evaluations and checkpoints use the averages a, which equal the weights until update t0 + 2.
class Asgd final : public Optimizer {
 public:
  explicit Asgd(std::vector<NamedParameter> parameters, const AsgdOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Asgd(Model& model, const AsgdOptions& options = {}) : Asgd(parameters_of(model), options) {}

  const AsgdOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;
  std::optional<double> average_share(std::size_t /*parameter_class*/) const override { return 0; }

 private:
  std::vector<AsgdOptions> options_;  // one per class of groups()
};

}  // namespace binade::optim
