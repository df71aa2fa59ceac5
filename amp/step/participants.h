#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/optim/ema_options.h"
#include "binade/optim/schedule.h"

namespace binade::nn {
class Module;
}
namespace binade::optim {
class Optimizer;
}

namespace binade::amp {

/// One of several models of a step, such as a generator or its discriminator. Its parameters are called NAME.PATH in
/// checkpoints and messages. Parameters that no optimizer holds are saved with the others, but do not change.
struct NamedModel {
  std::string name{};
  nn::Module& model;
  /// If set, `model` follows this other model of the trainer, as a teacher follows its student: each parameter of
  /// `model` is the average of the other model's parameter with the same path.
  nn::Module* average_of = nullptr;
  optim::EmaOptions average{};
};

/// One of several optimizers of a step.
struct NamedOptimizer {
  std::string name{};
  optim::Optimizer& optimizer;
  std::optional<optim::Schedule> schedule{};  ///< default: TrainerOptions::schedule
  std::optional<optim::EmaOptions> ema{};     ///< averages of its weights; default: TrainerOptions::ema
};

/// The models and optimizers of a trainer. Names are empty if there is one of each.
struct Participants {
  std::vector<NamedModel> models{};
  std::vector<NamedOptimizer> optimizers{};
};

/// A part of a step: backward of one loss, and the updates of `optimizers`.
template <class Closure>
struct Phase {
  std::vector<optim::Optimizer*> optimizers{};
  Closure closure;  ///< computes the loss, as the closure of Trainer::step()
};
template <class Closure>
Phase<std::decay_t<Closure>> phase(optim::Optimizer& optimizer, Closure&& closure) {
  return {{&optimizer}, std::forward<Closure>(closure)};
}
template <class Closure>
Phase<std::decay_t<Closure>> phase(std::vector<optim::Optimizer*> optimizers, Closure&& closure) {
  return {std::move(optimizers), std::forward<Closure>(closure)};
}

/// The phases of a step, in order. Each reads the weights that the phases before it have updated; the step commits all
/// updates, or none. Pass it to Trainer::step() in place of a closure:
///
///     trainer.step(batch, amp::Phases(amp::phase(critic_optimizer, critic_loss),
///                                     amp::phase(generator_optimizer, generator_loss)));
template <class... Closures>
class Phases {
 public:
  explicit Phases(Phase<Closures>... phases) : phases_(std::move(phases)...) {}

  /// Returns the optimizers of each phase.
  std::vector<std::vector<optim::Optimizer*>> optimizers() const {
    using Lists = std::vector<std::vector<optim::Optimizer*>>;
    return std::apply([](const auto&... one) { return Lists{one.optimizers...}; }, phases_);
  }
  /// Calls the closure of phase `number`, from 0.
  template <class Batch>
  Variable loss(int number, const Batch& batch) {
    Variable loss;
    int i = 0;
    std::apply([&](auto&... one) { ((i++ == number ? void(loss = one.closure(batch)) : void()), ...); }, phases_);
    return loss;
  }

 private:
  std::tuple<Phase<Closures>...> phases_;
};

}  // namespace binade::amp
