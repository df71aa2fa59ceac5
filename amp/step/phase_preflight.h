#pragma once

#include "binade/amp/preflight/finding.h"
#include "binade/amp/step/step_feed.h"

namespace binade::amp {

class Transaction;

/// Lists the numerical risks of the first micro-batch of each phase, for each of the phase's optimizers.
PreflightReport preflight_phases(const Transaction& transaction, const StepFeed& feed);

}  // namespace binade::amp
