#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/state_dict.h"
#include "binade/optim/flat_parameters.h"
#include "binade/optim/gradient_scan.h"
#include "binade/optim/step_input.h"
#include "binade/optim/update_bounds.h"

namespace binade::optim {

/// Decides which parameters weight decay applies to; none given: those of rank >= 2.
using DecayFilter = std::function<bool(std::string_view name, const Variable& parameter)>;
/// For `decays`: every parameter, as other frameworks do by default.
inline bool decay_all(std::string_view, const Variable&) { return true; }

/// True (`finite`) if an update would write finite numbers only; if not, the parameter that would not be.
struct UpdateProof {
  bool finite = true;
  bool by_bound = false;    ///< proved from magnitudes alone; otherwise by a dry pass
  std::string parameter{};  ///< the first parameter that would not be finite
  double largest = 0;       ///< largest magnitude that it would reach
  double limit = 0;         ///< largest number that its dtype (or its 16-bit copy) holds
};

/// Facts that an optimizer states about its updates, for rules that judge settings (pre-flight, warnings). 0: it has no
/// such setting.
struct UpdateFacts {
  double beta1 = 0, beta2 = 0;
  double eps = 0;
  double decoupled_decay = 0;    ///< weights are multiplied by 1 - lr times this
  bool divides_by_root = false;  ///< by the root of a second moment, plus eps
  bool unit_steps = false;       ///< a weight moves by about the learning rate, however small the gradient is
  DType moment_dtype = DType::f32;
};

/// Turns gradients into new values. One fused pass writes masters, moments and 16-bit copies; computing is in f32,
/// moments are f32 unless the options say otherwise. A parameter without a gradient in this pass keeps its value, and
/// its own count of updates does not change.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  const std::string& kind() const { return kind_; }  ///< "sgd", "adam", "adamw", "lion"
  virtual UpdateFacts facts() const { return {}; }
  FlatParameters& parameters() { return parameters_; }
  const FlatParameters& parameters() const { return parameters_; }
  double lr() const { return lr_; }  ///< used if there is no schedule
  void set_lr(double lr) { lr_ = lr; }
  std::int64_t updates() const { return updates_; }  ///< committed so far
  void zero_grad() { parameters_.zero_grad(); }

  /// Weights without f32 masters: rank >= 2 in `dtype`, rounded stochastically (or to nearest). f32 undoes it.
  void store_weights_in(DType dtype, bool stochastic);

  /// Call after writing weights by other means: forgets their known magnitudes.
  void weights_changed() { bounds_.forget(); }

  /// Makes one update, unless `input.commit` is false. REQUIRES finite gradients (see prove_finite); throws
  /// ArgumentError on a non-finite learning rate.
  void step(const StepInput& input);
  /// Makes one update with lr(), of unscaled gradients.
  void step() { step({.lr = lr_}); }
  /// Updates each optimizer once, inputs[i] for optimizers[i], all of them or none: everything that can fail on the
  /// host (memory, a learning rate) happens before the first write. REQUIRES optimizers of different parameters.
  static void step_together(std::span<Optimizer* const> optimizers, std::span<const StepInput> inputs);

  /// Proves, before anything is written, that values, moments and 16-bit copies (65504 for f16!) will be finite: from
  /// the largest gradient and the largest value of each parameter and a bound of the step; if the bound fails, by a dry
  /// pass that computes the update without writing it.
  UpdateProof prove_finite(const StepInput& input, const GradientScan& scan);

  /// "kind", "updates", "moment1/NAME", "moment2/NAME". Tensors alias the optimizer's own. load_state checks everything
  /// first and changes nothing unless all fits (CheckpointError).
  StateDict state() const;
  void check_state(const StateDict& state) const;
  void load_state(const StateDict& state);

 protected:
  struct Settings {
    std::string kind{};
    UpdateRule rule{};
    double lr = 0;
    DType moment_dtype = DType::f32;
    DecayFilter decays{};
  };
  using Magnitudes = optim::Magnitudes;

  Optimizer(std::vector<NamedParameter> parameters, Settings settings);

  /// Returns the rule's numbers for update `t` (from 1) of a parameter.
  virtual UpdateNumbers numbers(bool decays, std::int64_t t, double lr) const = 0;
  /// Returns upper bounds after one update, given the largest unscaled, clipped gradient; infinity if there is none.
  /// They must not fall when the gradient grows.
  virtual Magnitudes bound(const Magnitudes& now, double gradient, bool decays, double lr) const = 0;

 private:
  friend class DeviceUpdates;
  /// One pass over the parameters, with its buffers.
  struct Pass {
    std::vector<UpdateSlice> slices{};
    std::vector<BlockExtremes> extremes{}, largest{};  // of blocks, of slices
    std::vector<Magnitudes> magnitudes{};
    std::vector<bool> updated{};  // which slices have a gradient
  };

  std::vector<UpdateSlice> update_slices(const StepInput& input, std::span<const float* const> gradients,
                                         std::int64_t ahead = 0);
  UpdateArguments update_arguments() const;
  Pass prepared(const StepInput& input);
  void run(Pass& pass, bool write);
  void write(Pass pass);
  void count_update(std::vector<Magnitudes> magnitudes);

  std::string kind_;
  UpdateRule rule_;
  double lr_;
  DType moment_dtype_;
  FlatParameters parameters_;
  UpdateBounds bounds_;
  std::vector<Tensor> moments_;  // flat buffers, one or two, or none
  std::vector<std::int64_t> slice_updates_;
  std::vector<bool> updated_;  // which had a gradient in the last update
  std::int64_t updates_ = 0;
  bool stochastic_ = false;
};

namespace detail {

/// Throws ArgumentError unless low <= value <= high (or < high when `open`), naming the option.
void check_option(std::string_view kind, std::string_view option, double value, double low, double high,
                  bool open = false);
/// Refuses moments in 16 bits with settings that vanish there: eps or weight_decay that round to 0, beta2 that rounds
/// to 1. The text says which number would work. No-op for f32.
void check_moment_settings(std::string_view kind, DType dtype, double eps, double beta2, double weight_decay);

}  // namespace detail

}  // namespace binade::optim
