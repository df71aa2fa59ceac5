#include "binade/amp/step/spike_review.h"

#include <bit>

#include "binade/amp/step/attempt.h"
#include "binade/amp/step/remedies.h"
#include "binade/amp/step/transaction.h"

namespace binade::amp {
namespace {

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

}  // namespace

bool SpikeReview::defer(const Attempt& attempt, const OngoingStep& ongoing) {
  if (ongoing.spike != SpikeVerdict::kUnknown || !ongoing.feed.keep || !ongoing.plan.left_out.empty() ||
      !ongoing.micro_batches_left_out.empty())
    return false;
  const Attempt again = runner_.rehearse(ongoing.plan, ongoing.feed);
  if (again.cause != attempt.cause || !same_bits(again.loss, attempt.loss)) return false;
  waiting_ = {ongoing.feed.keep(), SpikeVerdict::kUnknown, attempt};
  return true;
}

void SpikeReview::queue(const StepFeed& feed) { waiting_ = {feed.keep(), SpikeVerdict::kAccepted, {}}; }

SpikeReview::Reviewed SpikeReview::review(OngoingStep& next) {
  Reviewed reviewed{.verdict = waiting_->verdict, .attempt = waiting_->attempt};
  std::optional<StepFeed> feed;
  if (next.feed.with) feed = next.feed.with(waiting_->batches);
  if (reviewed.verdict == SpikeVerdict::kUnknown) {
    const double loss = runner_.rehearse(next.plan, next.feed).loss;
    reviewed.verdict = transaction_.spikes().is_usual(loss)   ? SpikeVerdict::kOfBatch
                       : remedies_.earlier_weights_help(next) ? SpikeVerdict::kOfRun
                                                              : SpikeVerdict::kAccepted;
    if (feed) {
      AttemptPlan plan = next.plan;
      plan.micro_batches = OngoingStep(*feed, plan).plan.micro_batches;
      if (!same_bits(runner_.rehearse(plan, *feed).loss, reviewed.attempt.loss)) feed.reset();
    }
  }
  waiting_.reset();
  if (reviewed.verdict == SpikeVerdict::kAccepted) transaction_.forget_spikes();
  reviewed.feed = std::move(feed);
  return reviewed;
}

}  // namespace binade::amp
