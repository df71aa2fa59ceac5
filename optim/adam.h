#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  ///< Adam: weight_decay w is added to the gradient (L2). AdamW: decoupled from the gradient
  DType moment_dtype = DType::f32;
  DecayFilter decays{};  ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool amsgrad = false;   ///< divides by the root of the largest v so far, which costs a third state per weight
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// Adam (Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015) and AdamW (Loshchilov & Hutter,
/// "Decoupled weight decay regularization", ICLR 2019), as PyTorch defines them. w is a weight, g its gradient, m and v
/// its moments; t is the number of updates of this parameter, from 1:
///   Adam:  g += weight_decay w.   AdamW: w *= 1 - lr weight_decay.
///   m += (1 - beta1)(g - m);  v = beta2 v + (1 - beta2) g^2;
///   w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
/// With amsgrad (Reddi et al., "On the convergence of Adam and beyond", ICLR 2018), the largest v so far replaces v.
class AdamBase : public Optimizer {
 public:
  const AdamOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  AdamBase(std::vector<NamedParameter> parameters, const AdamOptions& options, bool decoupled);
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;

 private:
  std::vector<AdamOptions> options_;  // one per class of groups()
  bool decoupled_;
};

class Adam final : public AdamBase {
 public:
  explicit Adam(std::vector<NamedParameter> parameters, const AdamOptions& options = {})
      : AdamBase(std::move(parameters), options, false) {}
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Adam(Model& model, const AdamOptions& options = {}) : Adam(parameters_of(model), options) {}
};

/// Like AdamOptions, but weight_decay is not 0 by default.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  DType moment_dtype = DType::f32;
  DecayFilter decays{};
  std::vector<ParameterGroup> groups{};
  bool amsgrad = false;
  bool maximize = false;
};

class AdamW final : public AdamBase {
 public:
  explicit AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit AdamW(Model& model, const AdamWOptions& options = {}) : AdamW(parameters_of(model), options) {}
};

namespace detail {

/// Settings that Adam and its variants share.
struct AdamSettings {
  double beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  bool decoupled = false;
};
UpdateNumbers adam_numbers(const AdamSettings& settings, const UpdateTarget& target);
/// Returns the bounds after an update whose step is `factor` times Adam's.
Magnitudes adam_bound(const AdamSettings& settings, const Magnitudes& now, double gradient, const UpdateTarget& target,
                      double factor = 1);

}  // namespace detail

}  // namespace binade::optim
