#include "binade/amp/step/verification.h"

#include "binade/amp/watch/op_checksums.h"

namespace binade::amp {

Attempt run_twice(AttemptRunner& runner, Device device, const AttemptPlan& plan, const StepFeed& feed,
                  TapeObserver* observer) {
  AttemptPlan alone = plan;
  alone.micro_batches.resize(1);
  alone.first = false;
  alone.part = true;
  StepFeed first_phase = feed;
  first_phase.phases.resize(1);  // later phases read weights that all micro-batches have changed
  const int micro_batch = alone.micro_batches.front();
  OpChecksums before(device, micro_batch);
  runner.rehearse(alone, first_phase, &before);
  OpChecksums now(device, micro_batch, &before);
  Attempt attempt = runner.run(plan, feed, &now, observer);
  attempt.verified = true;
  attempt.mismatch = now.first_difference(before);
  if (attempt.mismatch) attempt.cause = AbortCause::kCorruption;
  return attempt;
}

}  // namespace binade::amp
