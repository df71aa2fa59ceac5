#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/core/exclusive_use.h"
#include "binade/core/state_dict.h"
#include "binade/optim/flat_parameters.h"
#include "binade/optim/gradient_scan.h"
#include "binade/optim/parameter_groups.h"
#include "binade/optim/step_input.h"
#include "binade/optim/update_bounds.h"

namespace binade::optim {

/// Result of Optimizer::prove_finite().
struct UpdateProof {
  bool finite = true;       ///< true if the update would write finite numbers only
  bool by_bound = false;    ///< true if proved by UpdateBounds; false if a dry run was needed
  std::string parameter{};  ///< if not finite: the first parameter whose value or moment would not be
  double largest = 0;       ///< magnitude that the value or moment would reach
  double limit = 0;         ///< largest finite number of its dtype (or of the 16-bit copy)
};

/// Properties of an optimizer's update rule, which pre-flight and warnings read to judge its settings. A number is 0 if
/// the optimizer has no such setting.
struct UpdateFacts {
  bool stated = true;  ///< false: nothing is known about the sizes of updates, so no rule judges them
  double beta1 = 0, beta2 = 0;
  double eps = 0;
  double decoupled_decay = 0;    ///< each update multiplies weights by 1 - lr decoupled_decay
  bool divides_by_root = false;  ///< true if an update divides by sqrt(mean of squares) + eps
  int root_moment = 2;           ///< number of the moment that is this mean
  bool unit_steps = false;       ///< true if a weight changes by about the learning rate, however small the gradient is
  DType moment_dtype = DType::f32;

  bool operator==(const UpdateFacts&) const = default;
};

/// A parameter whose update a rule computes or bounds.
struct UpdateTarget {
  std::size_t parameter_class = 0;  ///< its class (ParameterGroups), an index into the rule's options
  bool decays = true;               ///< true if weight decay applies to the parameter
  std::int64_t t = 1;               ///< number of this update of the parameter, from 1; 0 in bound()
  double lr = 0;                    ///< learning rate of its groups
};

/// Updates parameters from their gradients. One kernel writes masters, moments and 16-bit copies; it computes in f32.
/// Moments are f32 unless the options say otherwise. A parameter without a gradient keeps its value, and its number of
/// updates does not change.
///
/// step(), step_together() and load_state() throw an ArgumentError, which names both calls, while another thread is
/// inside of one of them for the same optimizer.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  const std::string& kind() const { return kind_; }  ///< name in checkpoints and messages: "sgd", "adamw"
  UpdateFacts facts() const { return facts_of(0); }
  /// Returns the facts about the parameters of a class of groups().
  virtual UpdateFacts facts_of(std::size_t /*parameter_class*/) const { return {}; }
  const ParameterGroups& groups() const { return groups_; }
  /// Returns the learning rate of parameter `slice` in an update.
  double lr_of(std::size_t slice, const StepInput& input) const;
  /// True if the optimizer keeps averages of the weights, with which the model is evaluated and used. The Trainer's
  /// evaluations and checkpoints use these averages; a loop without a Trainer opens an AveragedWeights scope.
  bool averages_weights() const { return average_share(0).has_value(); }
  /// Returns the averages as one f32 tensor with the layout of parameters(). REQUIRES: averages_weights().
  Tensor averaged_weights() const;
  /// Passes a validation loss to the schedules of groups.
  void observe(double loss) { groups_.observe(loss); }
  FlatParameters& parameters() { return parameters_; }
  const FlatParameters& parameters() const { return parameters_; }
  double lr() const { return lr_; }  ///< learning rate if there is no schedule
  void set_lr(double lr) { lr_ = lr; }
  std::int64_t updates() const { return updates_; }  ///< number of updates made so far
  void zero_grad() { parameters_.zero_grad(); }

  /// Stores parameters of rank >= 2 in `dtype` (f16 or bf16) without f32 masters. Updates round them stochastically if
  /// `stochastic`, otherwise to nearest. f32 undoes it.
  void store_weights_in(DType dtype, bool stochastic);

  /// Discards the known largest magnitudes of weights. Call it after weights were written through a pointer; other
  /// writes (load_state_dict(), copy_from()) are noticed.
  void weights_changed() { bounds_.forget(); }

  /// Makes one update, or nothing if `input.commit` is false. Proves first that it is finite (prove_finite()). Changes
  /// nothing and throws: NumericError for a gradient or an update that is not finite; AutogradError if no parameter has
  /// a gradient, or if gradients include a loss scale (LossScaler::backward) that the input does not divide by;
  /// ArgumentError if the learning rate is negative or not finite, or if a parameter has no optimizer
  /// (check_registration()).
  void step(const StepInput& input);
  /// Makes one update with the learning rate lr().
  void step() { step({.lr = lr_}); }
  /// Makes one update of each optimizer, with inputs[i] for optimizers[i], or of none if an error occurs: allocations
  /// and checks that can fail on the host precede the first write. REQUIRES: no two optimizers share a parameter.
  static void step_together(std::span<Optimizer* const> optimizers, std::span<const StepInput> inputs);

  /// True if a device can decide about updates by itself (DeviceUpdates), so that steps can be captured.
  virtual bool device_can_decide() const { return true; }

  /// Proves, before anything is written, that the update will leave values, moments and 16-bit copies finite (at most
  /// 65504 in f16). First tries UpdateBounds with the largest gradient of each parameter in `scan`. If the bounds do
  /// not suffice, a dry run computes the update without writing it.
  UpdateProof prove_finite(const StepInput& input, const GradientScan& scan);

  /// Returns the entries "kind", "updates", "parameter_updates", those of groups() and, for each parameter and moment
  /// of the rule, "moment1/NAME" to "moment3/NAME"; also "rule" if options choose among several rules. The tensors are
  /// views of the moments, not copies. If averages_weights(), adds their copies as "ema/average/NAME", which
  /// load_state() ignores.
  StateDict state() const;
  /// Returns how the groups differ from those of `saved`, a result of state().
  std::vector<std::string> changes_since(const StateDict& saved) const { return groups_.changes_since(saved); }
  /// Both throw CheckpointError, with nothing changed, if the state belongs to another optimizer or model.
  void check_state(const StateDict& state) const;
  void load_state(const StateDict& state);

 protected:
  struct Settings {
    std::string kind{};
    UpdateRule rule{};
    double lr = 0;
    DType moment_dtype = DType::f32;
    DecayFilter decays{};
    std::vector<ParameterGroup> groups{};
    bool maximize = false;  ///< true: maximizes the loss (the gradient is negated)
  };
  /// Returns the settings of an optimizer whose options have the usual members.
  template <class Options>
  static Settings settings(std::string kind, UpdateRule rule, const Options& o) {
    return {std::move(kind), std::move(rule), o.lr, o.moment_dtype, o.decays, o.groups, o.maximize};
  }
  using Magnitudes = optim::Magnitudes;

  Optimizer(std::vector<NamedParameter> parameters, const Settings& settings);

  /// Returns the numbers that the update rule reads in an update of a parameter.
  virtual UpdateNumbers numbers(const UpdateTarget& target) const = 0;
  /// Returns upper bounds of a parameter's magnitudes after one update, given those before it and the largest unscaled,
  /// clipped gradient; infinity if there is no bound. A larger gradient must not give smaller bounds.
  virtual Magnitudes bound(const Magnitudes& now, double gradient, const UpdateTarget& target) const = 0;
  /// For an optimizer that averages weights: the number a in average = moment1 + a (weight - moment1).
  virtual std::optional<double> average_share(std::size_t /*parameter_class*/) const { return std::nullopt; }

 private:
  friend class CustomOptimizer;
  friend class DeviceUpdates;
  /// Arguments and results of one call of the update kernel.
  struct Pass {
    std::vector<UpdateSlice> slices{};                 // one per parameter
    std::vector<BlockExtremes> extremes{}, largest{};  // after the update: one per block, one per parameter
    std::vector<Magnitudes> magnitudes{};              // `largest` as doubles
    std::vector<bool> updated{};                       // per parameter: it has a gradient
  };

  std::vector<UpdateSlice> update_slices(const StepInput& input, std::span<const float* const> gradients,
                                         std::int64_t ahead = 0);
  UpdateTarget target_of(std::size_t slice, const StepInput& input, std::int64_t t) const;
  /// Returns the input with its step number set. `ahead`: number of updates in flight before it.
  StepInput numbered(StepInput input, std::int64_t ahead = 0) const;
  UpdateArguments update_arguments() const;
  void check_step(const StepInput& input);
  virtual Pass prepared(const StepInput& input);
  /// written() is called after an update was written; the others are for state that a derived class adds.
  virtual void written() {}
  virtual void put_own_state(StateDict& /*state*/) const {}
  virtual void check_own_state(const StateDict& /*state*/) const {}
  virtual void load_own_state(const StateDict& /*state*/) {}
  void run(Pass& pass, bool write);
  void write(Pass pass);
  void count_update(std::vector<Magnitudes> magnitudes);

  ExclusiveUse use_{"optimizer"};
  std::string kind_;
  UpdateRule rule_;
  double lr_;
  DType moment_dtype_;
  ParameterGroups groups_;
  FlatParameters parameters_;
  UpdateBounds bounds_;
  std::vector<Tensor> moments_;                      // one flat buffer for each moment of the rule (0 to 3)
  std::vector<std::int64_t> updates_per_parameter_;  // number of updates of each parameter
  std::vector<bool> had_gradient_;                   // per parameter: it had a gradient in the last update
  std::int64_t updates_ = 0;
  bool maximize_ = false;
  bool stochastic_ = false;  // 16-bit weights without masters are rounded stochastically
};

namespace detail {

/// Throws ArgumentError with the name of the option unless low <= value <= high (value < high if `open`).
void check_option(std::string_view kind, std::string_view option, double value, double low, double high,
                  bool open = false);
/// Throws ArgumentError if moments in a 16-bit `dtype` have settings that are lost in it: eps or weight_decay rounds to
/// 0, or beta2 rounds to 1. The text states a number that would work. Does nothing for f32.
void check_moment_settings(std::string_view kind, DType dtype, double eps, double beta2, double weight_decay);

}  // namespace detail

}  // namespace binade::optim
