#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/policy.h"
#include "binade/amp/step/options.h"
#include "binade/amp/step/step_feed.h"
#include "binade/amp/verdict.h"
#include "binade/amp/watch/telemetry.h"
#include "binade/core/step_context.h"

namespace binade::amp {

/// The data and settings of one attempt at a step. Samples are numbered across the micro-batches of the step.
struct AttemptPlan {
  std::int64_t step = 0;
  std::vector<int> micro_batches{};          ///< numbers of the micro-batches that are not left out
  std::vector<std::int64_t> left_out{};      ///< samples to leave out, ascending
  std::int64_t samples_per_micro_batch = 0;  ///< 0: unknown
  double loss_scale = 1;
  Policy policy{};
  bool any_loss = false;  ///< true: accepts any finite loss, even an absurd one
  bool first = false;     ///< true for the first attempt at the step, false for retries and replays
  bool part = false;      ///< true: the feed has only the first of the step's phases
  /// True: this rank runs micro-batches that it holds, one after the other, without the other ranks. Such an attempt is
  /// never committed.
  bool by_itself = false;

  /// True if the attempt runs all phases, micro-batches and samples of the step.
  bool is_whole(const StepFeed& feed) const;
  /// Leaves out a sample, and its micro-batch if no sample is left in it.
  void leave_out(std::int64_t sample);
  /// Returns the samples of a micro-batch that are left out, numbered within it.
  std::vector<std::int64_t> left_out_of(int micro_batch) const;
  /// Returns the number of samples of a micro-batch that are not left out.
  std::int64_t samples_left_in(int micro_batch) const;
  /// Returns the number of a sample in the whole batch. `sample`: its number if samples that are left out of its
  /// micro-batch are not counted.
  std::int64_t original(std::int64_t sample) const;
};

/// The cause of an absurd loss, judged by the loss of the next batch.
enum class SpikeVerdict : std::uint8_t {
  kUnknown,   ///< the loss of the next batch is not known yet
  kOfBatch,   ///< the next batch has a usual loss: this batch alone is to blame
  kOfRun,     ///< the next batch has an unusual loss too, but could be committed with earlier weights
  kAccepted,  ///< the data has changed, or no check can decide: the step may commit with any finite loss
};

/// The state that attempts at one step share.
struct OngoingStep {
  /// Sets the micro-batches of `plan` to those of the feed.
  OngoingStep(const StepFeed& feed, AttemptPlan plan);

  const StepFeed& feed;
  AttemptPlan plan;
  std::vector<int> micro_batches_left_out{};
  std::optional<LossScaler::State> before_overflow{}, before_nan{};  ///< to restore if a lower scale does not help
  bool nan_is_overflow = false;                                      ///< the NaN disappears at the lowest loss scale
  bool is_suspect = false;                      ///< an attempt's bits differed when a micro-batch was computed twice
  SpikeVerdict spike = SpikeVerdict::kUnknown;  ///< the cause of an absurd loss
  std::optional<RecoveryPoint> recovery{};      ///< the newest checkpoint whose weights make the step finite
  std::optional<Telemetry> raised{};  ///< telemetry of an extra run at a higher scale (Warnings::confirmation_factor)

  /// Returns the samples that a replay can leave out, numbered as Experiments::rows (amp/incident/diagnosis.h).
  std::vector<std::int64_t> removable_samples() const;
  /// Call when a remedy has removed the cause of a NaN, so that the next NaN is treated as the first one.
  void nan_resolved();
};

/// Sets this thread's step context to that of one step, and restores the previous one at the end of its life.
class StepContextScope {
 public:
  StepContextScope(std::uint64_t seed, std::int64_t step);
  ~StepContextScope();
  StepContextScope(const StepContextScope&) = delete;
  StepContextScope& operator=(const StepContextScope&) = delete;

 private:
  StepContext previous_;
};

}  // namespace binade::amp
