#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;  ///< added to the gradient (L2)
  bool nesterov = false;    ///< wants momentum > 0 and no dampening
  DType moment_dtype = DType::f32;
  DecayFilter decays{};
};

/// Stochastic gradient descent with momentum, as PyTorch defines it:
///   g += weight_decay w;  m = g at the first update, else momentum m + (1 - dampening) g;
///   d = nesterov ? g + momentum m : m (g without momentum);  w -= lr d.
class Sgd final : public Optimizer {
 public:
  explicit Sgd(std::vector<NamedParameter> parameters, const SgdOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Sgd(Model& model, const SgdOptions& options = {}) : Sgd(parameters_of(model), options) {}

  const SgdOptions& options() const { return options_; }

 protected:
  UpdateNumbers numbers(bool decays, std::int64_t t, double lr) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, bool decays, double lr) const override;

 private:
  SgdOptions options_;
};

}  // namespace binade::optim
