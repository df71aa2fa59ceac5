#pragma once

#include "tests/truth/trial.h"

namespace binade::truth {

/// Evidence from independent runs of a bad step.
struct Findings {
  Evidence at_scale{};   ///< under the policy, at the loss scale of the step
  Evidence at_one{};     ///< under the policy, at a loss scale of 1
  Evidence in_double{};  ///< on the batch in f64
  const std::optional<CallKey>& first() const { return at_one.first ? at_one.first : at_scale.first; }
};

/// Verifies that the fault occurred as the scenario claims, without Binade's diagnosis. Returns why not; empty: it did.
std::string verify(Session& session, const Batch& batch, const Truth& truth, Findings& findings);

/// Compares the report in `outcome` with the truth and fills the record.
void judge(const Outcome& outcome, const Batch& batch, const Truth& truth, const Findings& findings, Record& record);

/// The truth in one line.
std::string describe(const Truth& truth, const Findings& findings);
/// An outcome in one line.
std::string describe(const Outcome& outcome);

}  // namespace binade::truth
