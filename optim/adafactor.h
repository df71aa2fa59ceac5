#pragma once

#include "binade/optim/custom_optimizer.h"

namespace binade::optim {

struct AdafactorOptions {
  double lr = 1e-2;           ///< upper limit of the relative step size
  double beta2_decay = -0.8;  ///< update t gives the newest squares the share t^beta2_decay
  double eps1 = 0x1p-23;      ///< smallest root of an estimated square
  double eps2 = 1e-3;         ///< smallest root mean square of a weight matrix, in the scale of its steps
  double d = 1;               ///< limit of the root mean square of an update
  double weight_decay = 0;    ///< decoupled from the gradient
  DecayFilter decays{};       ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// Adafactor (Shazeer & Stern, "Adafactor: adaptive learning rates with sublinear memory cost", ICML 2018), as PyTorch
/// defines it. For a matrix with r rows and c columns it keeps r + c numbers: the means of the squared gradients over
/// each row and each column, whose product estimates each square. Filters are matrices over their last two dimensions;
/// for vectors it keeps every square. t is the number of updates of this parameter, from 1; RMS(x) = sqrt(mean of x^2):
///   alpha = max(eps2, RMS(w)) min(lr, 1 / sqrt(t));  w *= 1 - lr weight_decay;
///   u = g / sqrt(max(estimated squares, eps1^2));  w -= alpha u / max(1, RMS(u) / d).
class Adafactor final : public CustomOptimizer {
 public:
  explicit Adafactor(std::vector<NamedParameter> parameters, const AdafactorOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit Adafactor(Model& model, const AdafactorOptions& options = {}) : Adafactor(parameters_of(model), options) {}

  const AdafactorOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  void update(ParameterUpdate& u) const override;

 private:
  std::vector<AdafactorOptions> options_;  // one per class of groups()
};

}  // namespace binade::optim
