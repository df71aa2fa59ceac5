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
};

/// Adam (Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015) and AdamW (Loshchilov & Hutter,
/// "Decoupled weight decay regularization", ICLR 2019), as PyTorch defines them. w is a weight, g its gradient, m and v
/// its moments; t is the number of updates of this parameter, from 1:
///   Adam:  g += weight_decay w.   AdamW: w *= 1 - lr weight_decay.
///   m += (1 - beta1)(g - m);  v = beta2 v + (1 - beta2) g^2;
///   w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
class AdamBase : public Optimizer {
 public:
  const AdamOptions& options() const { return options_; }
  UpdateFacts facts() const override;

 protected:
  AdamBase(std::vector<NamedParameter> parameters, const AdamOptions& options, bool decoupled);
  UpdateNumbers numbers(bool decays, std::int64_t t, double lr) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, bool decays, double lr) const override;

 private:
  AdamOptions options_;
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
};

class AdamW final : public AdamBase {
 public:
  explicit AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit AdamW(Model& model, const AdamWOptions& options = {}) : AdamW(parameters_of(model), options) {}
};

}  // namespace binade::optim
