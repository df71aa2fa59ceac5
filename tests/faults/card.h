#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/incident/diagnosis.h"

namespace binade::faults {

using amp::CauseClass;

/// Where a planted fault first shows: what a right diagnosis says.
struct Place {
  std::string module{}, op{}, direction{};
};

/// The truth about a planted fault, stated before anything is run.
struct Card {
  bool incident = true;                  ///< false: nothing is wrong, or the loss scaler alone answers it
  std::optional<Place> place{};          ///< left out if no op is to blame
  std::vector<std::string> values{};     ///< what may be found there: "inf", "-inf", "nan"; empty: not judged
  std::optional<std::int64_t> sample{};  ///< row of the step's whole batch
  bool judge_sample = true;              ///< whether `sample` (or its absence) is part of the truth
  std::string parameter{};               ///< path, where a parameter, a moment or a buffer is meant
  std::vector<CauseClass> causes{};      ///< right answers; the first stands in the confusion matrix
  /// A run that does the right thing goes on and ends as an unharmed one does.
  bool recoverable = true;
  std::vector<std::string> remedies{};  ///< right actions, as report.json names them
};

/// Remedies by what they answer.
inline const std::vector<std::string> kLeaveOut = {"quarantine-sample", "skip-batch"};
inline const std::vector<std::string> kSkip = {"skip-batch"};
inline const std::vector<std::string> kPromote = {"promote-op"};
inline const std::vector<std::string> kRollBack = {"rollback"};
inline const std::vector<std::string> kStop = {"stop"};

}  // namespace binade::faults
