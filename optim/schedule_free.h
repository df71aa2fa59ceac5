#pragma once

#include "binade/optim/optimizer.h"

namespace binade::optim {

struct ScheduleFreeAdamWOptions {
  double lr = 2.5e-3;
  double beta1 = 0.9;  ///< share of the average in the weights at which gradients are computed
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;     ///< decoupled from the gradient
  std::int64_t warmup = 0;     ///< number of updates in which the rate rises linearly to lr
  double r = 0;                ///< update t has the weight t^r in the average
  double weight_lr_power = 2;  ///< power of the rate during the warm-up as a weight in the average
  DecayFilter decays{};        ///< parameters that weight_decay applies to
  std::vector<ParameterGroup> groups{};
  bool maximize = false;  ///< true: the loss is maximized (the gradient is negated)
};

/// Schedule-free AdamW (Defazio et al., "The road less scheduled", NeurIPS 2024). A model needs no schedule: it is used
/// with the average x of the iterates z. Gradients g are computed at the weights y = (1 - beta1) z + beta1 x. t is the
/// number of updates of this parameter, from 1; lr_t = lr min(1, t / warmup);
/// c_t = t^r lr_t^weight_lr_power / (sum of the same over updates 1 to t):
///   v = beta2 v + (1 - beta2) g^2;  d = g / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay y;
///   y += c_t (z - y) - lr_t (1 - beta1 (1 - c_t)) d;  z -= lr_t d.
/// The parameters of the model are y, for training. The Trainer's evaluations, and the averages in checkpoints, which
/// inference reads, are x = z + (y - z) / beta1; a loop without a Trainer opens an AveragedWeights scope to evaluate. A
/// schedule of the run scales lr_t, but not the weights c_t; leave it constant, and set `warmup` here.
class ScheduleFreeAdamW final : public Optimizer {
 public:
  explicit ScheduleFreeAdamW(std::vector<NamedParameter> parameters, const ScheduleFreeAdamWOptions& options = {});
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  explicit ScheduleFreeAdamW(Model& model, const ScheduleFreeAdamWOptions& options = {})
      : ScheduleFreeAdamW(parameters_of(model), options) {}

  const ScheduleFreeAdamWOptions& options() const { return options_.front(); }
  UpdateFacts facts_of(std::size_t parameter_class) const override;

 protected:
  UpdateNumbers numbers(const UpdateTarget& target) const override;
  Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const override;
  std::optional<double> average_share(std::size_t parameter_class) const override {
    return 1 / options_[parameter_class].beta1;
  }

 private:
  /// The sum of the weights of updates 1 to t, divided by the weight of update t.
  struct WeightSum {
    std::int64_t t = 0;
    double sum = 0;
  };
  double warm(std::size_t parameter_class, std::int64_t t) const;
  /// Returns c_t.
  double newest_weight(std::size_t parameter_class, std::int64_t t) const;

  std::vector<ScheduleFreeAdamWOptions> options_;  // one per class of groups()
  mutable std::vector<WeightSum> last_sum_;  // per class: the last one computed, from which the next one continues
};

}  // namespace binade::optim
