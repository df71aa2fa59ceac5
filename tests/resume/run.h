#pragma once

#include <cstdint>
#include <string>

#include "tests/resume/plan.h"

namespace binade::resume {

/// Begins the planned run in a folder or goes on with it, in objects of its own, through a TrainingRun.
void live(const Plan& plan, const Life& life, const std::string& folder);

/// The state of such a run before its first step.
StateDict state_at_birth(const Plan& plan);

/// Whether two entries of a state are the same bits.
bool same_value(const StateDict::Value& a, const StateDict::Value& b);

/// What a finished run leaves that is to be the same, bit for bit.
struct Outcome {
  std::string checkpoint{};  ///< the last one's file, whole: every tensor, counter, window and cursor
  std::string metrics{};     ///< metrics.jsonl, whole: every attempt with its loss, gradient norm, scale and state hash
  std::string headroom{};    ///< headroom.jsonl, the last line of each step
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
/// Throws DataError when the run has not ended.
Outcome outcome_of(const Plan& plan, const std::string& folder);

/// Where two outcomes differ, for people; empty when nowhere.
std::string difference(const Outcome& control, const Outcome& other);

}  // namespace binade::resume
