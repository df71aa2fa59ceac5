#pragma once

#include "binade/amp/step/attempt.h"

namespace binade::amp {

/// Runs the first micro-batch of an attempt alone, then the whole attempt as AttemptRunner::run() does, and compares
/// the bits of every op's results in that micro-batch (in the first phase, if the step has several). If they differ,
/// the attempt's cause is kCorruption. `observer` observes only the whole attempt, and may be null (decision 0064).
Attempt run_twice(AttemptRunner& runner, Device device, const AttemptPlan& plan, const StepFeed& feed,
                  TapeObserver* observer);

}  // namespace binade::amp
