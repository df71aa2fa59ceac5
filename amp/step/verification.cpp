#include "binade/amp/step/verification.h"

#include "binade/amp/ranks/bytes.h"
#include "binade/amp/watch/op_checksums.h"

namespace binade::amp {

namespace {

/// Returns this rank's mismatch or, if it found none, the first one that another rank found.
std::optional<ChecksumMismatch> shared(Communicator& ranks, const std::optional<ChecksumMismatch>& own) {
  if (ranks.alone()) return own;
  ByteWriter out;
  const ChecksumMismatch m = own.value_or(ChecksumMismatch{});
  out.put(own.has_value()).put(m.module).put(m.op).put(m.direction).put(m.micro_batch).put(m.tape_index);
  out.put(m.other_ops);
  const std::vector<Bytes> all = ranks.gather(out.bytes(), "a verification");
  for (const Bytes& bytes : all) {
    ByteReader in(bytes);
    if (!in.get<bool>()) continue;
    if (own) return own;
    ChecksumMismatch found{.module = in.get<std::string>()};
    found.op = in.get<std::string>();
    found.direction = in.get<Direction>();
    found.micro_batch = in.get<std::int64_t>();
    found.tape_index = in.get<std::int64_t>();
    found.other_ops = in.get<bool>();
    return found;
  }
  return std::nullopt;
}

}  // namespace

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
  attempt.mismatch = shared(runner.ranks(), now.first_difference(before));
  if (attempt.mismatch) attempt.cause = AbortCause::kCorruption;
  return attempt;
}

}  // namespace binade::amp
