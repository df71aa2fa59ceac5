#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct RmspropOptions {
  double lr = 1e-2;
  double alpha = 0.99;  ///< share of the old average in the new average of squares
  double eps = 1e-8;
  double weight_decay = 0;  ///< weight_decay w is added to the gradient (L2)
  double momentum = 0;
  bool centered = false;  ///< divides by the standard deviation of the gradient, which costs one more state per weight
  DType moment_dtype = DType::f32;
  DecayFilter decays{};  ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// RMSprop (Hinton, "Neural networks for machine learning", lecture 6, 2012), as PyTorch defines it. w is a weight, g
/// its gradient:
///   g += weight_decay w;  v = alpha v + (1 - alpha) g^2;  centered: a += (1 - alpha)(g - a), else a = 0;
///   d = g / (sqrt(v - a^2) + eps);  with momentum: b = momentum b + d, d = b;  w -= lr d.
/// If rounding makes v - a^2 negative, it counts as 0.
class Rmsprop final : public Optimizer {
 public:
  explicit Rmsprop(std::vector<NamedParameter> parameters, const RmspropOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Rmsprop(Model& model, const RmspropOptions& options = {}) : Rmsprop(parameters_of(model), options) {}

  const RmspropOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;

 private:
  std::vector<RmspropOptions> options_;  // one per class of groups()
};

}  // namespace binade::optim
