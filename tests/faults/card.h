#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/incident/diagnosis.h"

namespace binade::faults {

using amp::CauseClass;

/// The place where a planted fault first has an effect. A right diagnosis reports it.
struct Place {
  std::string module{}, op{}, direction{};
};

/// The ground truth about a planted fault, fixed before the run.
struct Card {
  bool incident = true;                  ///< false: there is no fault, or the loss scaler alone handles it
  std::optional<Place> place{};          ///< none if no op is to blame
  std::vector<std::string> values{};     ///< values accepted there: "inf", "-inf", "nan"; empty: not judged
  std::optional<std::int64_t> sample{};  ///< row in the step's batch (all micro-batches)
  bool judge_sample = true;              ///< whether `sample` (or its absence) is judged
  std::string parameter{};               ///< path of the parameter or buffer to blame, if any
  std::vector<CauseClass> causes{};      ///< accepted causes; the confusion matrix shows the first
  /// Whether a run with the right remedy completes with the final loss of a run without the fault.
  bool recoverable = true;
  std::vector<std::string> remedies{};  ///< accepted remedies, as report.json names them
};

/// Sets of accepted remedies.
inline const std::vector<std::string> kLeaveOut = {"quarantine-sample", "skip-batch"};
inline const std::vector<std::string> kSkip = {"skip-batch"};
inline const std::vector<std::string> kPromote = {"promote-op"};
inline const std::vector<std::string> kRollBack = {"rollback"};
inline const std::vector<std::string> kStop = {"stop"};

}  // namespace binade::faults
