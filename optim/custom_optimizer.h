#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "binade/optim/optimizer.h"

namespace binade::optim {

/// A state tensor of a parameter, f32, zero before the first update.
struct StateTensor {
  std::string name{};  ///< "momentum"; a checkpoint holds it as "momentum/PARAMETER"
  Shape shape{};
};

/// One update of one parameter, the argument of CustomOptimizer::update(). All variables are f32 copies, which the
/// update may overwrite or replace by others of the same shape.
class ParameterUpdate {
 public:
  const std::string& name;  ///< name of the parameter
  UpdateTarget target;      ///< its class of groups, weight decay, number of updates and learning rate
  Variable weight;          ///< the old weight, which update() replaces by the new one
  Variable gradient;        ///< without loss scale, clipped
  /// Returns a state tensor by name. Throws ArgumentError if the parameter has none of this name.
  Variable& state(std::string_view state_name);

  ParameterUpdate(const std::string& parameter, const UpdateTarget& of) : name(parameter), target(of) {}
  std::vector<std::pair<std::string, Variable>> states{};
};

/// Base of optimizers whose update rule is a function of tensors, written outside of Binade. A derived class lists its
/// state tensors and computes the update of one parameter:
///
///     struct Signum : optim::CustomOptimizer {
///       template <class Model>
///       explicit Signum(Model& model)
///           : CustomOptimizer(optim::parameters_of(model), {.kind = "signum", .lr = 1e-4, .state = {"momentum"}}) {}
///       void update(optim::ParameterUpdate& u) const override {
///         Variable& m = u.state("momentum");
///         m = 0.9 * m + 0.1 * u.gradient;
///         u.weight = u.weight - u.target.lr * sign(m);
///       }
///     };
///
/// The Trainer proves every update finite before it writes any of it: the update is computed into separate memory (as
/// large as f32 weights and state), which is checked for finite numbers within the range of the weights and of their
/// 16-bit copies, and then committed without a second computation. Checkpoints hold the state tensors. Weights without
/// masters are rounded as those of other optimizers. A device cannot decide about these updates by itself, so that
/// steps with them run eagerly. Pre-flight and warnings judge the settings of a rule only if it overrides facts_of().
class CustomOptimizer : public Optimizer {
 public:
  UpdateFacts facts_of(std::size_t /*parameter_class*/) const override { return {.stated = false}; }
  bool device_can_decide() const final { return false; }

 protected:
  /// The names of state tensors that have the shape of their parameter, or a function that lists those of a parameter.
  class StateList {
   public:
    StateList() = default;
    StateList(std::initializer_list<const char*> names);  // NOLINT(google-explicit-constructor)
    template <class F>
    requires std::is_invocable_r_v<std::vector<StateTensor>, F&, const std::string&, const Shape&> StateList(F f)
        : list_(std::move(f)) {}  // NOLINT(google-explicit-constructor)
    std::vector<StateTensor> of(const std::string& parameter, const Shape& shape) const {
      return list_ ? list_(parameter, shape) : std::vector<StateTensor>{};
    }

   private:
    std::function<std::vector<StateTensor>(const std::string&, const Shape&)> list_;
  };
  struct CustomSettings {
    std::string kind{};  ///< name of the optimizer, in checkpoints and messages
    double lr = 0;
    StateList state{};
    DecayFilter decays{};
    std::vector<ParameterGroup> groups{};
    bool maximize = false;  ///< true: ParameterUpdate::gradient is the negative gradient
  };

  /// Throws ArgumentError for a state name that is empty, has a slash or is the name of another entry of a checkpoint.
  CustomOptimizer(std::vector<NamedParameter> parameters, const CustomSettings& settings);

  /// Computes the update of a parameter that has a gradient. Reads nothing that changes except `u`, and writes nothing
  /// else: the update may be computed several times, or computed and then discarded. Ops run in f32, off the tape,
  /// unseen by observers; their random numbers are those of the step.
  virtual void update(ParameterUpdate& u) const = 0;

 private:
  /// Identifies updates that were computed and not written yet.
  struct Staged {
    StepInput input{};
    std::int64_t updates = 0;
    std::uint64_t gradients = 0;  // their checksum
    std::uint64_t value_versions = 0;

    friend bool operator==(const Staged&, const Staged&) = default;
  };
  struct State {
    std::string name{};
    Tensor value{}, staged{};
  };

  UpdateNumbers numbers(const UpdateTarget&) const final { return {}; }
  Magnitudes bound(const Magnitudes&, double, const UpdateTarget&) const final;
  Pass prepared(const StepInput& input) final;
  void written() final;
  void put_own_state(StateDict& state) const final;
  void check_own_state(const StateDict& state) const final;
  void load_own_state(const StateDict& state) final;

  void stage(const StepInput& input);
  void stage_parameter(std::size_t slice, const StepInput& input);
  std::uint64_t gradient_checksum();
  std::uint64_t value_versions() const;

  std::vector<std::vector<State>> states_;     // per parameter
  Tensor staged_values_;                       // f32, flat; undefined before the first update
  std::vector<std::uint32_t> largest_states_;  // per parameter: bits of the largest staged |state|
  std::optional<Staged> staged_;
};

}  // namespace binade::optim
