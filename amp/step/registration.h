#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/amp/warnings/warning.h"
#include "binade/autograd/excluded_leaves.h"
#include "binade/autograd/gradient_owner.h"
#include "binade/nn/module.h"
#include "binade/nn/module_use.h"
#include "binade/optim/gradient_scan.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

class Transaction;

/// Throws ArgumentError if an optimizer holds a parameter that no visit() of the model names.
void check_optimizers(nn::Module& model, const std::vector<optim::Optimizer*>& optimizers);

/// Returns the parameters of the named models of which no optimizer holds any parameter: these models are frozen
/// (docs/several-models.md).
std::vector<std::shared_ptr<Variable::State>> frozen_parameters(const Transaction& transaction);
/// Returns the parameters that a phase of these optimizers does not train: those of the other optimizers, and the
/// frozen ones.
LeafSet untrained_by(const Transaction& transaction, std::span<const std::size_t> optimizers);

/// Checks in the first two steps of a trainer that visit() names all parameters, buffers and modules that a step uses,
/// and that an optimizer holds each parameter that gets a gradient (docs/decisions/0059). Later steps are not checked.
class Registration {
 public:
  /// `transaction` must outlive the object.
  explicit Registration(const Transaction& transaction) : transaction_(transaction) {}

  /// Records which leaves, buffers and modules the attempts of a step use, while it exists.
  class Watch {
   private:
    friend class Registration;
    UnregisteredLeaves loose_{};
    nn::ModuleUse use_{};
  };
  /// Returns a watch if the step must be checked, otherwise null.
  std::unique_ptr<Watch> watch() const;

  /// Checks a phase of a watched attempt, after its backward. `scans`: the gradients of `optimizers` (indices).
  /// `again`: computes the loss of a micro-batch of the phase once more, to find the place of an op in the program.
  /// Throws ArgumentError for a parameter with a gradient and without an optimizer, for a written buffer or a module in
  /// training mode that no visit() names, and for an optimizer none of whose parameters has a gradient.
  void check_phase(const Watch& watch, const std::vector<std::size_t>& optimizers,
                   const std::vector<optim::GradientScan>& scans, const std::function<void()>& again) const;
  /// Call it if the watched attempt at `step` can be committed.
  void passed(const Watch& watch, std::int64_t step);
  /// Returns a warning for each variable that had a gradient in both steps and is no nn::Parameter.
  std::vector<Warning> take_warnings() { return std::exchange(warnings_, {}); }

 private:
  void check_parameters(const std::function<void()>& again) const;
  void check_use(const Watch& watch) const;

  const Transaction& transaction_;
  std::int64_t first_step_ = 0;  // the first step that passed; 0: none yet
  bool done_ = false;
  std::vector<UnheldLeaf> loose_;  // the loose leaves (LooseLeaves) of the first step
  std::vector<Warning> warnings_;
};

}  // namespace binade::amp
