#pragma once

#include <optional>

#include "binade/amp/step/plan.h"

namespace binade::amp {

class AttemptRunner;
class Remedies;
class Transaction;

/// Takes the second measure of an absurd loss (SpikeGuard): the loss of the batch after it, with the same weights.
///
/// A loss alone cannot show whether its batch is bad or the data has changed. What stays is the data: if the next batch
/// has a usual loss, the first one alone is to blame. If the next batch has an unusual loss too and earlier weights do
/// not help, the data has changed, and both batches are used, in their order: the run goes on as without a guard.
class SpikeReview {
 public:
  /// The arguments must outlive the review.
  SpikeReview(Transaction& transaction, AttemptRunner& runner, Remedies& remedies)
      : transaction_(transaction), runner_(runner), remedies_(remedies) {}

  /// Lets the batch of an attempt with an absurd loss wait for the next one. Returns false, and does nothing, if it
  /// has waited already, if a replay has another loss, or if the batch cannot be copied or has lost samples.
  bool defer(const Attempt& attempt, const OngoingStep& ongoing);
  /// Lets a batch wait until the next call although nothing is wrong with it.
  void queue(const StepFeed& feed);
  void forget() { waiting_.reset(); }
  bool waits() const { return waiting_.has_value(); }

  /// A batch that waited.
  struct Reviewed {
    SpikeVerdict verdict = SpikeVerdict::kUnknown;
    Attempt attempt{};  ///< the one with the absurd loss
    /// Gives the batch to the closure of the next one; std::nullopt if that closure takes other batches or computes
    /// another loss, so that the batch cannot be used any more. Must not outlive the feed of the next batch.
    std::optional<StepFeed> feed{};
  };
  /// Judges the batch that waits by the step that the next batch would make, and forgets it.
  Reviewed review(OngoingStep& next);

 private:
  struct Waiting {
    KeptBatches batches{};
    SpikeVerdict verdict = SpikeVerdict::kUnknown;
    Attempt attempt{};
  };

  Transaction& transaction_;
  AttemptRunner& runner_;
  Remedies& remedies_;
  std::optional<Waiting> waiting_;
};

}  // namespace binade::amp
