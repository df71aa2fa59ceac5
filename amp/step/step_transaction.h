#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <vector>

#include "binade/amp/step/undo_log.h"
#include "binade/core/exclusive_use.h"
#include "binade/nn/module.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// A transaction for steps of a hand-written loop, without a Trainer: all changes that a step makes to the models'
/// buffers and to the weights, moments and counts of the optimizers are kept, or none of them.
///
///     amp::StepTransaction transaction({&critic, &generator}, {&critic_optimizer, &generator_optimizer});
///     transaction.run([&] {
///       critic_scaler.backward(critic_loss(batch));
///       if (!critic_scaler.step(critic_optimizer).committed) return false;
///       generator_scaler.backward(generator_loss(batch));
///       return generator_scaler.step(generator_optimizer).committed;
///     });
///
/// The state of a LossScaler is not part of the transaction, so that an overflow lowers the scale for the next try.
/// Copies the state of the optimizers in each step.
class StepTransaction {
 public:
  /// Models and optimizers must outlive the transaction. Throws ArgumentError if a pointer is null or an optimizer is
  /// listed twice.
  StepTransaction(std::vector<nn::Module*> models, std::vector<optim::Optimizer*> optimizers);

  /// Calls `step`, which returns true to commit or nothing to commit always. If it returns false or throws, undoes its
  /// changes, discards the gradients, and returns false or rethrows. Returns true if the step was committed. Throws
  /// ArgumentError if another step of the transaction is in progress, on this or another thread.
  template <std::invocable F>
  bool run(F&& step) {
    if constexpr (std::convertible_to<std::invoke_result_t<F>, bool>)
      return run_step([&]() -> bool { return step(); });
    else
      return run_step([&] {
        step();
        return true;
      });
  }

 private:
  bool run_step(const std::function<bool()>& step);
  void roll_back();

  std::unique_ptr<ExclusiveUse> use_ = std::make_unique<ExclusiveUse>(
      "step transaction");  // a transaction can be moved
  bool in_step_ = false;
  std::vector<nn::Module*> models_;
  std::vector<optim::Optimizer*> optimizers_;
  std::vector<UndoLog> logs_;  // one per optimizer
};

}  // namespace binade::amp
