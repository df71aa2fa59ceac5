#pragma once

#include <optional>

#include "binade/amp/step/plan.h"

namespace binade::amp {

class AttemptRunner;
class Remedies;
class Transaction;

/// Decides what to do about an absurd loss (SpikeGuard), by the loss of the next batch with the same weights.
///
/// A loss alone cannot show whether its batch is bad or the data has changed. If the next batch has a usual loss, the
/// first batch alone is bad. If the next batch has an unusual loss too, and earlier weights do not help, the data has
/// changed; then both batches are used, in their order, as without a guard.
class SpikeReview {
 public:
  /// The arguments must outlive the review.
  SpikeReview(Transaction& transaction, AttemptRunner& runner, Remedies& remedies)
      : transaction_(transaction), runner_(runner), remedies_(remedies) {}

  /// Keeps the batch of an attempt with an absurd loss until the next batch comes. Returns false, and does nothing, if
  /// the batch has waited already, if a replay has another loss, or if the batch cannot be copied or has lost samples.
  bool defer(const Attempt& attempt, const OngoingStep& ongoing);
  /// Keeps a batch until the next call of Trainer::step(), although nothing is wrong with it.
  void queue(const StepFeed& feed);
  /// Drops the batch that waits.
  void forget() { waiting_.reset(); }
  /// True if a batch waits.
  bool waits() const { return waiting_.has_value(); }

  /// A batch that waited.
  struct Reviewed {
    SpikeVerdict verdict = SpikeVerdict::kUnknown;
    Attempt attempt{};  ///< the attempt with the absurd loss
    /// A feed of the batch with the closure of the next batch; std::nullopt if that closure takes another type of batch
    /// or computes another loss, so that the batch cannot be used any more. The feed of the next batch must outlive it.
    std::optional<StepFeed> feed{};
  };
  /// Judges the batch that waits by the loss of the next batch, and stops waiting.
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
