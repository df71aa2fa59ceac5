#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "binade/core/error.h"
#include "binade/optim/flat_parameters.h"
#include "binade/optim/schedule.h"
#include "binade/optim/step_input.h"

namespace binade::optim {

/// Returns true for parameters that weight decay applies to. Without a filter it applies to those of rank >= 2.
using DecayFilter = std::function<bool(std::string_view name, const Variable& parameter)>;
/// A DecayFilter that applies weight decay to every parameter, as other frameworks do by default.
inline bool decay_all(std::string_view, const Variable&) { return true; }

/// Selects the parameters of a group: by a pattern of their names ("*.bias"; `*` matches any characters, dots
/// included), by a module that owns them, by a function, or by a list of any of these.
class ParameterMatch {
 public:
  ParameterMatch() = default;
  ParameterMatch(const char* glob) : ParameterMatch(std::string(glob)) {}  // NOLINT(google-explicit-constructor)
  ParameterMatch(std::string glob);                                        // NOLINT(google-explicit-constructor)
  /// Selects the parameters that at least one of `alternatives` selects.
  ParameterMatch(std::initializer_list<ParameterMatch> alternatives);
  /// Selects the parameters of a module and its submodules.
  template <class Model>
  requires requires(Model& model) { parameters_of(model); }
  ParameterMatch(Model& model) : ParameterMatch(parameters_of(model)) {}  // NOLINT(google-explicit-constructor)
  /// Selects parameters by a function of name and variable.
  template <class F>
  requires std::is_invocable_r_v<bool, F&, std::string_view, const Variable&> ParameterMatch(
      F function)  // NOLINT(google-explicit-constructor)
      : selects_(std::move(function)), text_("a function") {}
  explicit ParameterMatch(const std::vector<NamedParameter>& parameters);

  bool defined() const { return selects_ != nullptr; }
  bool operator()(std::string_view name, const Variable& parameter) const { return selects_(name, parameter); }
  const std::string& text() const { return text_; }                 ///< "'*.bias'", "a module", "a function"
  const std::vector<std::string>& globs() const { return globs_; }  ///< the patterns among the alternatives

 private:
  std::function<bool(std::string_view, const Variable&)> selects_;
  std::string text_;
  std::vector<std::string> globs_;
};

/// Settings for some parameters. A setting that is not set is that of the optimizer. A parameter has the
/// settings of all groups that select it; if two of them have the same setting, that of the later group counts.
struct ParameterGroup {
  ParameterMatch match{};

  // At most one of these three. Without them a group has the learning rate of the step.
  std::optional<double> lr{};          ///< multiplies the step's learning rate by lr / (lr of the optimizer's options)
  std::optional<double> lr_factor{};   ///< multiplies the step's learning rate
  std::optional<Schedule> schedule{};  ///< the learning rate of step k, whatever the schedule of the run

  std::optional<double> weight_decay{};  ///< applies to parameters that the filter `decays` accepts
  DecayFilter decays{};                  ///< replaces the optimizer's filter
  std::optional<double> momentum{}, dampening{};
  std::optional<bool> nesterov{};
  std::optional<double> beta1{}, beta2{}, eps{};
  std::optional<double> alpha{}, rho{};

  std::string name{};  ///< names the group's learning rate in metrics: "head"; default: its patterns, or "group N"
};

/// Finds the groups of each parameter of an optimizer. Parameters with the same groups form a *class*, with an index;
/// class 0 has the parameters without a group.
class ParameterGroups {
 public:
  /// Sets `decays` of parameters whose group has a filter. `kind` and `lr`: name and learning rate of the optimizer.
  /// Throws ArgumentError, with similar names, if a group selects no parameter, and if settings contradict each other.
  ParameterGroups(std::string kind, double lr, std::vector<ParameterGroup> groups,
                  std::vector<NamedParameter>& parameters);

  std::size_t classes() const { return classes_.size(); }
  std::size_t class_of(std::size_t slice) const { return class_of_[slice]; }
  /// Returns the number of parameters of a class. Only that of class 0 can be 0.
  std::size_t parameters_of(std::size_t index) const { return classes_[index].parameters; }
  /// Returns the groups of a class as text: "group 'head.*'"; empty for class 0.
  std::string name_of(std::size_t index) const;
  /// Returns a unique name of a class, for metrics: the names of its groups, "head+*.bias", or "rest" for
  /// class 0.
  std::string label_of(std::size_t index) const;
  /// Returns the learning rate of a class in the update `input`. REQUIRES: input.step > 0.
  double lr(std::size_t index, const StepInput& input) const;
  /// Returns the highest of the rates of all parameters in the update `input`.
  double highest_lr(const StepInput& input) const;
  /// Returns the highest learning rate of a class, if `lr` is the highest one of the run's schedule.
  double peak_lr(std::size_t index, double lr) const;

  /// Returns the options of every class. Throws ArgumentError if a group sets an option that `Options` lacks.
  template <class Options>
  std::vector<Options> options_of(const Options& options) const {
    std::vector<Options> all(classes(), options);
    for (std::size_t index = 0; index < classes(); ++index)
      for (const std::size_t group : classes_[index].groups) apply(groups_[group], all[index]);
    return all;
  }

  /// Passes a validation loss to the groups' schedules.
  void observe(double loss);
  /// Adds "groups/N", the description of group N as text, and "schedules/N/...", the state of its schedule.
  void put_state(StateDict& state) const;
  void check_state(const StateDict& state) const;
  void load_state(const StateDict& state);
  /// Returns how the groups differ from those of `saved`: "group '*.bias' (3 parameters): weight_decay 0 -> 0.1".
  std::vector<std::string> changes_since(const StateDict& saved) const;

 private:
  struct Class {
    std::vector<std::size_t> groups{};  // ascending
    std::size_t parameters = 0;         // number of its parameters; 0 is possible in class 0
    double lr_factor = 1;
    std::optional<std::size_t> schedule{};  // index of the group that has the schedule
  };

  template <class Options>
  void apply(const ParameterGroup& group, Options& options) const {
    const auto set = [&](const auto& value, const char* name, auto setting_of) {
      if (!value) return;
      if constexpr (std::is_invocable_v<decltype(setting_of), Options&>)
        setting_of(options) = *value;
      else
        throw ArgumentError(
            fmt::format("{}: group {} sets {}, which {} does not have", kind_, group.match.text(), name, kind_));
    };
    set(group.weight_decay, "weight_decay", [](auto& o) -> decltype((o.weight_decay)) { return o.weight_decay; });
    set(group.momentum, "momentum", [](auto& o) -> decltype((o.momentum)) { return o.momentum; });
    set(group.dampening, "dampening", [](auto& o) -> decltype((o.dampening)) { return o.dampening; });
    set(group.nesterov, "nesterov", [](auto& o) -> decltype((o.nesterov)) { return o.nesterov; });
    set(group.beta1, "beta1", [](auto& o) -> decltype((o.beta1)) { return o.beta1; });
    set(group.beta2, "beta2", [](auto& o) -> decltype((o.beta2)) { return o.beta2; });
    set(group.eps, "eps", [](auto& o) -> decltype((o.eps)) { return o.eps; });
    set(group.alpha, "alpha", [](auto& o) -> decltype((o.alpha)) { return o.alpha; });
    set(group.rho, "rho", [](auto& o) -> decltype((o.rho)) { return o.rho; });
  }

  std::string kind_;
  double lr_;
  std::vector<ParameterGroup> groups_;
  std::vector<std::string> texts_;  // one per group, for checkpoints
  std::vector<Class> classes_;
  std::vector<std::size_t> class_of_;  // one per parameter of FlatParameters
};

}  // namespace binade::optim
