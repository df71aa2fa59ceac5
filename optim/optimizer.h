#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/kernels/step.h"
#include "binade/core/state_dict.h"
#include "binade/optim/flat_parameters.h"
#include "binade/optim/gradient_scan.h"

namespace binade::optim {

/// Decides which parameters weight decay applies to; none given: those of rank >= 2.
using DecayFilter = std::function<bool(std::string_view name, const Variable& parameter)>;
/// For `decays`: every parameter, as other frameworks do by default.
inline bool decay_all(std::string_view, const Variable&) { return true; }

/// What one update is given. Gradients are still multiplied by the loss scale and unclipped: both factors are applied
/// in the update's own pass.
struct StepInput {
  bool commit = true;        ///< the verdict: false leaves everything as it is
  double inverse_scale = 1;  ///< 1 / (loss scale x micro-batches)
  double clip_factor = 1;    ///< of clipping by norm
  double clip_value = 0;     ///< > 0: each unscaled gradient is clamped to [-clip_value, clip_value]
  double lr = 0;
};

/// Whether an update would write finite numbers only, and if not, where.
struct UpdateProof {
  bool finite = true;
  bool by_bound = false;    ///< decided from magnitudes alone; otherwise by a dry pass
  std::string parameter{};  ///< the first parameter that would not be finite
  double largest = 0;       ///< the largest magnitude that it would reach
  double limit = 0;         ///< what its dtype (or its 16-bit copy) holds
};

/// What an optimizer states about its updates, for rules that judge settings (pre-flight, warnings). 0: it has no such
/// setting.
struct UpdateFacts {
  double beta1 = 0, beta2 = 0;
  double eps = 0;
  double decoupled_decay = 0;    ///< weights are multiplied by 1 - lr times this
  bool divides_by_root = false;  ///< of a second moment, plus eps
  bool unit_steps = false;       ///< an update is about the learning rate, however small the gradient
  DType moment_dtype = DType::f32;
};

/// Turns gradients into new values. One fused pass writes masters, moments and 16-bit copies; computing is in f32,
/// moments are f32 unless asked otherwise. A parameter without a gradient in this pass is left as it is, and its own
/// count of updates stands still.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  const std::string& kind() const { return kind_; }  ///< "sgd", "adam", "adamw", "lion"
  virtual UpdateFacts facts() const { return {}; }
  FlatParameters& parameters() { return parameters_; }
  const FlatParameters& parameters() const { return parameters_; }
  double lr() const { return lr_; }  ///< used where no schedule says otherwise
  void set_lr(double lr) { lr_ = lr; }
  std::int64_t updates() const { return updates_; }  ///< committed so far
  void zero_grad() { parameters_.zero_grad(); }

  /// Weights without f32 masters: rank >= 2 in `dtype`, rounded stochastically (or to nearest). f32 undoes it.
  void store_weights_in(DType dtype, bool stochastic);

  /// Somebody else wrote weights: what is known of their magnitudes is no longer true.
  void weights_changed() { known_.clear(); }

  /// One update. Does nothing when `input.commit` is false. REQUIRES finite gradients (see prove_finite); throws
  /// ArgumentError on a non-finite learning rate.
  void step(const StepInput& input);
  /// With lr() and gradients as they are.
  void step() { step({.lr = lr_}); }
  /// Updates each optimizer once, inputs[i] for optimizers[i], all of them or none: everything that can fail on the
  /// host (memory, a learning rate) happens before the first write. REQUIRES optimizers of different parameters.
  static void step_together(std::span<Optimizer* const> optimizers, std::span<const StepInput> inputs);

  /// Proves, before anything is written, that values, moments and 16-bit copies (65504 for f16!) will be finite: from
  /// the largest gradient and the largest value of each parameter and a bound of the step; where the bound fails, a
  /// dry pass computes the update without writing it.
  UpdateProof prove_finite(const StepInput& input, const GradientScan& scan);

  // ---- steps that a device decides (core/kernels/step.h) ----------------------------------------

  /// Whether the next update can be one: magnitudes are known, so that a bound can speak for it, the 16-bit copies are
  /// those that updates write, and the update before had these parameters.
  bool can_leave_to_device() const;
  /// What the update needs, for each parameter: its numbers, and the largest unscaled, clipped gradient of which the
  /// bound shows that finite numbers are written; below 0 where it shows that of none.
  struct DeviceUpdate {
    StepInput input{};
    std::vector<UpdateSlice> slices{};
    std::vector<double> gradient_limits{};
  };
  DeviceUpdate device_update(const StepInput& input) const;
  /// The same for an update behind those that are `under_way` (oldest first), which was_updated() has not heard of.
  /// Each of them, and this one, has limits that leave room for others behind it. Nothing where the bound does not
  /// reach as far.
  std::optional<DeviceUpdate> device_update_behind(std::span<const DeviceUpdate* const> under_way,
                                                   const StepInput& input) const;
  /// Sends the verdict over gradients and `statistics`, and the update. Throws AutogradError where other parameters
  /// got gradients than in the update before.
  void send_to(const StepPlaces& places, std::span<const Tensor> statistics);
  std::size_t updated_parameters() const;  ///< that had a gradient in the update before
  /// It was committed: `extremes` of each parameter.
  void was_updated(std::span<const BlockExtremes> extremes);

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
    int moments = 0;
    DType moment_dtype = DType::f32;
    DecayFilter decays{};
  };
  /// Largest magnitudes of one parameter.
  struct Magnitudes {
    double value = 0;
    double moment1 = 0;
    double moment2 = 0;
  };

  Optimizer(std::vector<NamedParameter> parameters, Settings settings);

  /// This rule's numbers for update `t` (from 1) of a parameter.
  virtual void fill(UpdateSlice& slice, bool decays, std::int64_t t, double lr) const = 0;
  /// An upper bound of what one update leaves, given the largest unscaled, clipped gradient; infinity where none is
  /// known.
  virtual Magnitudes bound(const Magnitudes& now, double gradient, bool decays, double lr) const = 0;

 private:
  std::vector<UpdateSlice> update_slices(const StepInput& input, std::span<const float* const> gradients,
                                         std::int64_t ahead = 0) const;
  std::vector<UpdateSlice> device_slices(const StepInput& input, std::int64_t ahead) const;
  UpdateArguments update_arguments() const;
  static Magnitudes magnitudes_of(const BlockExtremes& extremes);
  bool bound_speaks() const;
  Magnitudes bound_after(const Magnitudes& before, std::size_t slice, double gradient, const StepInput& input) const;
  double gradient_limit(std::size_t slice, const StepInput& input, double share) const;
  /// One pass over the parameters, with its buffers.
  struct Pass {
    std::vector<UpdateSlice> slices{};
    std::vector<BlockExtremes> extremes{}, largest{};  // of blocks, of slices
    std::vector<Magnitudes> magnitudes{};
    std::vector<bool> updated{};  // which slices have a gradient
  };
  Pass prepared(const StepInput& input);
  void run(Pass& pass, bool write);
  void write(Pass pass);
  void count_update(std::vector<Magnitudes> magnitudes);
  double value_limit(std::size_t slice) const;
  double moment_limit() const;
  bool within(const Magnitudes& magnitudes, std::size_t slice, double share = 1) const;

  std::string kind_;
  UpdateRule rule_;
  double lr_;
  DType moment_dtype_;
  FlatParameters parameters_;
  std::vector<Tensor> moments_;  // flat buffers, one or two, or none
  std::vector<std::int64_t> slice_updates_;
  std::vector<bool> updated_;  // which had a gradient in the last update
  std::int64_t updates_ = 0;
  bool stochastic_ = false;
  std::vector<Magnitudes> known_;  // after the last update; empty: unknown, a dry pass decides
  std::int64_t distrust_until_ = 0;
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
