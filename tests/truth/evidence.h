#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/truth/session.h"

namespace binade::truth {

/// One op call of a step: the ordinal counts calls of that op in that module and direction.
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
  std::optional<CallKey> first{};               ///< the first call whose operands are finite and whose result is not
  std::vector<std::string> without_gradient{};  ///< parameters whose gradient is missing or exactly 0
  std::map<CallKey, double> largest{};          ///< largest magnitude of the results that are finite; inf if one is not
};

/// Runs the step's closure and its backward, seeded with `scale`, under `policy`. Leaves model and buffers as they are.
///
/// An operand that is -inf where the batch has a mask value counts as finite.
Evidence examine(Task& task, const Batch& batch, const amp::Policy& policy, double scale);

/// examine() with batch and parameters in f64, at a loss scale of 1.
Evidence examine_in_double(Task& task, const Batch& batch);

}  // namespace binade::truth
