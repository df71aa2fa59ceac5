#pragma once

#include "binade/optim/custom_optimizer.h"

namespace binade::optim {

struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;  ///< decoupled from the gradient, inside the trust ratio
  DecayFilter decays{};     ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// LAMB (You et al., "Large batch optimization for deep learning", ICLR 2020): Adam's step with decay, scaled to the
/// norm of the parameter. t is the number of updates of this parameter, from 1:
///   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
///   r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w;  w -= lr |w| / |r| r.
/// If |w| or |r| is 0, the ratio |w| / |r| counts as 1.
class Lamb final : public CustomOptimizer {
 public:
  explicit Lamb(std::vector<NamedParameter> parameters, const LambOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Lamb(Model& model, const LambOptions& options = {}) : Lamb(parameters_of(model), options) {}

  const LambOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  void update(ParameterUpdate& u) const override;

 private:
  std::vector<LambOptions> options_;  // one per class of groups()
};

struct LarsOptions {
  double lr = 0.1;
  double momentum = 0.9;
  double trust = 1e-3;         ///< coefficient of the trust ratio
  double weight_decay = 1e-4;  ///< weight_decay w is added to the gradient (L2)
  DecayFilter decays{};        ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// LARS (You et al., "Large batch training of convolutional networks", 2017): SGD with momentum, whose step is scaled
/// by a ratio of norms for each parameter. Parameters that weight decay does not apply to (biases, scales of norms)
/// have the ratio 1.
///   ratio = trust |w| / (|g| + weight_decay |w|), 1 if |w| or |g| is 0;
///   m = momentum m + lr ratio (g + weight_decay w);  w -= m.
class Lars final : public CustomOptimizer {
 public:
  explicit Lars(std::vector<NamedParameter> parameters, const LarsOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Lars(Model& model, const LarsOptions& options = {}) : Lars(parameters_of(model), options) {}

  const LarsOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  void update(ParameterUpdate& u) const override;

 private:
  std::vector<LarsOptions> options_;  // one per class of groups()
};

}  // namespace binade::optim
