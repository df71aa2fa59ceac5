#pragma once

#include "binade/amp/step/attempt.h"

namespace binade::amp {

/// Runs an attempt like AttemptRunner::run(), after a run of its first micro-batch alone, and compares the bits of the
/// results of every op of that micro-batch (in the first phase, if the step has several). If they differ, the cause of
/// the attempt is kCorruption. `observer` observes the attempt only, and may be null (decision 0064).
Attempt run_twice(AttemptRunner& runner, Device device, const AttemptPlan& plan, const StepFeed& feed,
                  TapeObserver* observer);

}  // namespace binade::amp
