// The part of an attempt in which gradients are added over the leaves of a step, and over ranks (docs/ranks.md).

#include <bit>
#include <exception>

#include "binade/amp/ranks/ballot.h"
#include "binade/amp/ranks/bytes.h"
#include "binade/amp/ranks/gradient_tree.h"
#include "binade/amp/ranks/statistics.h"
#include "binade/amp/step/attempt.h"
#include "binade/amp/step/transaction.h"

namespace binade::amp {
namespace {

/// Adds numbers to a hash (FNV-1a, by bytes).
class Hash {
 public:
  Hash& add(std::uint64_t number) {
    for (int byte = 0; byte < 8; ++byte) add_byte(static_cast<std::uint8_t>(number >> (8 * byte)));
    return *this;
  }
  Hash& add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<std::uint8_t>(c));
    return *this;
  }
  std::uint64_t value() const { return value_; }

 private:
  void add_byte(std::uint8_t byte) { value_ = (value_ ^ byte) * 1099511628211u; }
  std::uint64_t value_ = 14695981039346656037u;
};

std::uint64_t hash_of(const AttemptPlan& plan, const StepFeed& feed) {
  Hash hash;
  for (const io::BatchOrigin* origin : feed.origins) {
    if (origin == nullptr) continue;
    hash.add(origin->begin).add(origin->end);
    for (const std::int64_t sample : origin->samples) hash.add(static_cast<std::uint64_t>(sample));
  }
  for (const int micro_batch : plan.micro_batches) hash.add(static_cast<std::uint64_t>(micro_batch));
  for (const std::int64_t sample : plan.left_out) hash.add(static_cast<std::uint64_t>(sample));
  return hash.value();
}

/// Gives every rank the scan of rank `from`: what it found in the gradients of a bad micro-batch.
void share_scan(Communicator& ranks, int from, optim::GradientScan& scan, std::string_view what) {
  if (ranks.alone()) return;
  ByteWriter out;
  out.put(scan.words).put(scan.largest).put(scan.sum_squares).put(static_cast<std::uint64_t>(scan.gradients));
  const Bytes bytes = ranks.broadcast(out.bytes(), from, what);
  ByteReader in(bytes);
  scan.words = in.get<std::vector<std::uint32_t>>();
  scan.largest = in.get<std::uint32_t>();
  scan.sum_squares = in.get<double>();
  scan.gradients = in.get<std::uint64_t>();
}

}  // namespace

Communicator& AttemptRunner::ranks() const { return transaction_.ranks(); }

CommonState AttemptRunner::common_state(const Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed,
                                        const Phase& phase, int leaves) const {
  Hash parameters;
  for (const optim::FlatParameters::Slice* slice : transaction_.parameters())
    parameters.add(static_cast<std::uint64_t>(slice->count));
  return {.seed = transaction_.seed(),
          .step = static_cast<std::uint64_t>(plan.step),
          .attempt = static_cast<std::uint64_t>(transaction_.counters().attempts),
          .phase = static_cast<std::uint64_t>(phase.number),
          .micro_batches = feed.origins.size(),
          .leaves = static_cast<std::uint64_t>(leaves),
          .loss_scale = std::bit_cast<std::uint64_t>(plan.loss_scale),
          .learning_rate = std::bit_cast<std::uint64_t>(attempt.lr),
          .policy = Hash().add(plan.policy.to_string()).value(),
          .data = hash_of(plan, feed),
          .parameters = parameters.value(),
          .last_update = std::bit_cast<std::uint64_t>(transaction_.last_grad_norm())};
}

/// Runs those of the micro-batches that the plan has, each of which adds to the gradients, up to the first bad one.
void AttemptRunner::run_leaf(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase,
                             LeafRange micro_batches, Ballot& ballot) {
  for (const int micro_batch : plan.micro_batches) {
    if (!micro_batches.contains(micro_batch)) continue;
    check<ArgumentError>(feed.holds(micro_batch),
                         "trainer: rank {} of {} computes micro-batch {} of the step, which it was not given; pass all "
                         "micro-batches, or take them from trainer.batches(loader)",
                         ranks().rank(), ranks().size(), micro_batch);
    const AbortCause cause = try_micro_batch(attempt, plan, feed, phase, micro_batch);
    ballot.losses.push_back({micro_batch, attempt.loss});
    if (cause == AbortCause::kNone) continue;
    ballot.bad_micro_batch = micro_batch;
    ballot.cause = cause;
    ballot.refused = attempt.refused;
    ballot.bad_buffer = attempt.bad_buffer;
    return;
  }
}

/// Runs this rank's leaves of a phase, and adds their gradients to those of the other leaves. All ranks leave it with the
/// same verdict and, if there is nothing bad, with the same gradients, statistics and loss. No exception leaves it on
/// one rank alone.
void AttemptRunner::run_leaves(Attempt& attempt, const AttemptPlan& plan, const StepFeed& feed, Phase& phase,
                               int leaves) {
  const LeafRange own = share_of(leaves, ranks().rank(), ranks().size());
  Ballot ballot{.common = common_state(attempt, plan, feed, phase, leaves)};
  const nn::StatisticsLog log;
  std::vector<optim::FlatParameters*> parameters;
  for (const std::size_t i : phase.optimizers) parameters.push_back(&transaction_.optimizers()[i]->parameters());
  GradientTree tree(std::move(parameters), leaves);
  std::exception_ptr error;
  try {
    for (int leaf = own.begin; leaf < own.end; ++leaf) {
      const LeafRange run = micro_batches_of(static_cast<int>(feed.origins.size()), leaves, {leaf, leaf + 1});
      run_leaf(attempt, plan, feed, phase, run, ballot);
      if (ballot.bad_micro_batch >= 0) break;
      tree.add(leaf);
    }
    ballot.next_op = phase.next_op;
    ballot.present = tree.present();
    if (!ranks().alone()) ballot.statistics = encode_statistics(transaction_.model(), log);
  } catch (const std::exception& caught) {
    error = std::current_exception();
    ballot.error = *caught.what() == 0 ? "an exception" : caught.what();
  } catch (...) {
    error = std::current_exception();
    ballot.error = "an exception that is no std::exception";
  }
  const std::string what = fmt::format("the ballot of step {}", plan.step);
  const std::vector<Bytes> encoded = ranks().gather(ballot.encoded(), what);
  if (error) std::rethrow_exception(error);
  std::vector<Ballot> ballots;
  for (const Bytes& bytes : encoded) ballots.push_back(Ballot::decoded(bytes));

  const Vote vote = verdict_of(ballots);
  attempt.cause = vote.cause;
  attempt.loss = vote.loss;
  attempt.refused = vote.refused;
  attempt.bad_buffer = vote.bad_buffer;
  phase.next_op = vote.next_op;
  if (!attempt.commits()) {
    if (plan.micro_batches.size() > 1) attempt.bad_micro_batch = vote.bad_micro_batch;
    if (!ranks().alone()) attempt.bad_rank = vote.bad_rank;
    share_scan(ranks(), vote.bad_rank, attempt.scan, what);
    return;
  }
  std::vector<std::vector<std::vector<std::uint8_t>>> present;
  std::vector<std::span<const std::byte>> statistics;
  for (Ballot& one : ballots) {
    present.push_back(std::move(one.present));
    statistics.emplace_back(one.statistics);
  }
  tree.finish(ranks(), present, fmt::format("the gradients of step {}", plan.step));
  attempt.scan = scan_gradients(phase);
  attempt.cause = judge_gradients(attempt.scan);
  if (ranks().alone()) return;
  replay_statistics(transaction_.model(), statistics);
  if (attempt.commits()) attempt.bad_buffer = first_bad_buffer(transaction_.model());
  if (!attempt.bad_buffer.empty()) attempt.cause = AbortCause::kStatistics;
}

}  // namespace binade::amp
