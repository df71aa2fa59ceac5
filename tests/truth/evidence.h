#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/truth/session.h"

namespace binade::truth {

/// One op call of a step. `ordinal` numbers the calls of the same op in the same module and direction.
struct CallKey {
  std::string module{}, op{}, direction{};
  int ordinal = 0;
  friend auto operator<=>(const CallKey&, const CallKey&) = default;
};

/// Observations of one forward and backward outside of the trainer, independent of Binade's diagnosis.
struct Evidence {
  bool finite = true;  ///< the loss and all gradients
  bool loss_finite = true;
  std::string error{};                          ///< message of the error that the closure threw
  std::optional<CallKey> first{};               ///< the first call with finite operands and a non-finite result
  std::vector<std::string> without_gradient{};  ///< parameters whose gradient is missing or exactly 0
  std::map<CallKey, double> largest{};  ///< largest magnitude of the results of a call; inf if one is not finite
};

/// Runs the step's closure under `policy`, and backward from a gradient of `scale`. Does not change the model.
///
/// If an element of an operand is -inf because of a mask in the batch, it counts as finite.
Evidence examine(Task& task, const Batch& batch, const amp::Policy& policy, double scale);

/// examine() with batch and parameters in f64, at a loss scale of 1.
Evidence examine_in_double(Task& task, const Batch& batch);

}  // namespace binade::truth
