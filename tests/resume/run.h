#pragma once

#include <cstdint>
#include <string>

#include "tests/resume/plan.h"

namespace binade::resume {

/// Starts or resumes the planned run in `folder` with new objects and a TrainingRun.
void run_session(const Plan& plan, const Session& session, const std::string& folder);

/// The state of a run of this plan before its first step.
StateDict initial_state(const Plan& plan);

/// Whether two entries of a state have the same bits.
bool same_value(const StateDict::Value& a, const StateDict::Value& b);

/// Output of a finished run that must not depend on interruptions, bit for bit.
struct Outcome {
  std::string checkpoint{};  ///< the last checkpoint file: every tensor, counter, window and cursor
  std::string metrics{};     ///< metrics.jsonl: every attempt with its loss, gradient norm, scale and state hash
  std::string headroom{};    ///< headroom.jsonl, the last line of each step
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
/// Throws DataError if the run has not ended.
Outcome outcome_of(const Plan& plan, const std::string& folder);

/// A difference between two outcomes as text; empty if there is none.
std::string difference(const Outcome& control, const Outcome& other);

}  // namespace binade::resume
