#pragma once

#include "binade/amp/ranks/ballot.h"
#include "binade/amp/step/plan.h"

namespace binade::amp {

class Transaction;

/// Returns what all ranks must have in common before they compare their results of a phase.
CommonState common_state(const Transaction& transaction, const Attempt& attempt, const AttemptPlan& plan,
                         const StepFeed& feed, int phase);

}  // namespace binade::amp
