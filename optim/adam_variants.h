#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  ///< weight_decay w is added to the gradient (L2)
  DType moment_dtype = DType::f32;
  DecayFilter decays{};  ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// Adamax (Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015, section 7.1), as PyTorch defines it. t
/// is the number of updates of this parameter, from 1:
///   g += weight_decay w;  m += (1 - beta1)(g - m);  u = max(beta2 u, |g| + eps);  w -= lr / (1 - beta1^t) * m / u.
class Adamax final : public Optimizer {
 public:
  explicit Adamax(std::vector<NamedParameter> parameters, const AdamaxOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Adamax(Model& model, const AdamaxOptions& options = {}) : Adamax(parameters_of(model), options) {}

  const AdamaxOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;

 private:
  std::vector<AdamaxOptions> options_;  // one per class of groups()
};

struct NAdamOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;  ///< true: as in AdamW; false: weight_decay w is added to the gradient (L2)
  DType moment_dtype = DType::f32;
  DecayFilter decays{};  ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// NAdam (Dozat, "Incorporating Nesterov momentum into Adam", ICLR workshop 2016), as PyTorch defines it: Adam's
/// moments m and v, mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2), P_t = mu_1 … mu_t,
///   w -= lr ((1 - mu_t) / (1 - P_t) g + mu_(t+1) / (1 - P_(t+1)) m) / (sqrt(v) / sqrt(1 - beta2^t) + eps).
class NAdam final : public Optimizer {
 public:
  explicit NAdam(std::vector<NamedParameter> parameters, const NAdamOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit NAdam(Model& model, const NAdamOptions& options = {}) : NAdam(parameters_of(model), options) {}

  const NAdamOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;

 private:
  /// The product of mu_1 to mu_t.
  struct MuProduct {
    std::int64_t t = 0;
    double product = 1;
  };
  double mu_product(std::size_t parameter_class, std::int64_t t) const;

  std::vector<NAdamOptions> options_;            // one per class of groups()
  mutable std::vector<MuProduct> last_product_;  // per class: the last one computed, from which the next one continues
};

struct RAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  ///< true: as in AdamW; false: weight_decay w is added to the gradient (L2)
  DType moment_dtype = DType::f32;
  DecayFilter decays{};  ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// RAdam (Liu et al., "On the variance of the adaptive learning rate and beyond", ICLR 2020), as PyTorch defines it:
/// Adam's moments m and v, r = 2 / (1 - beta2) - 1, r_t = r - 2 t beta2^t / (1 - beta2^t). If r_t > 5,
///   w -= lr sqrt((r_t - 4)(r_t - 2) r / ((r - 4)(r - 2) r_t)) m / (1 - beta1^t) sqrt(1 - beta2^t) / (sqrt(v) + eps),
/// otherwise w -= lr m / (1 - beta1^t).
class RAdam final : public Optimizer {
 public:
  explicit RAdam(std::vector<NamedParameter> parameters, const RAdamOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit RAdam(Model& model, const RAdamOptions& options = {}) : RAdam(parameters_of(model), options) {}

  const RAdamOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;

 private:
  std::vector<RAdamOptions> options_;  // one per class of groups()
};

}  // namespace binade::optim
