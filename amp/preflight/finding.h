#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "binade/core/dtype.h"

namespace binade::amp {

/// An input that turns the risk of a finding into a failure.
struct Trigger {
  std::string of{};              ///< the tensor to set to `values`: "the input of 'sigmoid' in head"
  std::vector<double> values{};  ///< one value for all elements, or a row
  DType dtype = DType::f32;      ///< dtype of `values`
  double operand = 0;            ///< value of the op's operand that results from `values`, if `values` is one number
  std::string chain{};           ///< explanation: "sigmoid of 17.3287 is 1 in f32"
};

enum class Severity : std::uint8_t {
  kPossible,  ///< some input leads to a failure
  kMeasured,  ///< the measured batch or the settings lead to a failure
};
std::string_view name_of(Severity severity);

/// A risk of the step.
struct PreflightFinding {
  std::string rule{};  ///< the rule's name in docs/preflight.md: "bce-after-sigmoid"
  Severity severity = Severity::kPossible;
  std::string module{};          ///< path; empty at the root, and if no op is at risk
  std::int64_t tape_index = -1;  ///< tape index of the op; -1 if no op is at risk
  std::string op{};              ///< name of the op, or "loss scale", "step" or the optimizer
  std::string what{};            ///< description of the failure
  std::string advice{};          ///< recommended change
  std::optional<Trigger> trigger{};
  std::vector<std::string> also{};  ///< paths of further modules with the same finding
};

/// The result of a pre-flight.
struct PreflightReport {
  std::vector<PreflightFinding> findings{};
  /// Loss of the measured batch (in the last phase, if the step has several); NaN if the closure threw an error
  double loss = 0;
  double seconds = 0;  ///< duration of the analysis

  /// Adds the findings of another phase or optimizer of the same step, each only once.
  void add(PreflightReport other);
};

/// Prints place and description, then trigger and advice.
std::ostream& operator<<(std::ostream& out, const PreflightFinding& finding);

/// Returns {"findings":1,"seconds":0.2,"loss":0.69,"list":[{"rule":…}]}.
std::string preflight_json(const PreflightReport& report);

}  // namespace binade::amp
