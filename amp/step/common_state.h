#pragma once

#include "binade/amp/ranks/ballot.h"
#include "binade/amp/step/plan.h"

namespace binade::amp {

class Transaction;

/// Returns the values that must be the same on all ranks in this phase. verdict_of() compares them.
CommonState common_state(const Transaction& transaction, const Attempt& attempt, const AttemptPlan& plan,
                         const StepFeed& feed, int phase);

}  // namespace binade::amp
