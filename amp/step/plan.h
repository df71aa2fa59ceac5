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

/// What an attempt at a step computes, and with which settings. Samples are numbered through the step's whole batch.
struct Plan {
  std::int64_t step = 0;
  std::vector<int> micro_batches{};          ///< that count
  std::vector<std::int64_t> left_out{};      ///< samples that do not count, ascending
  std::int64_t samples_per_micro_batch = 0;  ///< 0: not known
  double loss_scale = 1;
  double lr = 0;
  Policy policy{};
  bool first = false;  ///< the first attempt at the step, not a replay

  void leave_out(std::int64_t sample);  ///< and its micro-batch, if that has no other sample
  /// Samples of one micro-batch that are left out, numbered within it.
  std::vector<std::int64_t> left_out_of(int micro_batch) const;
  std::int64_t samples_left_in(int micro_batch) const;
  /// The number in the whole batch of the sample that is `sample % samples_per_micro_batch` among those left in its
  /// micro-batch.
  std::int64_t original(std::int64_t sample) const;
};

/// What the attempts at one step share.
struct Trial {
  /// `plan` gets the feed's micro-batches.
  Trial(const StepFeed& feed, Plan plan);

  const StepFeed& feed;
  Plan plan;
  std::vector<int> micro_batches_left_out{};
  std::optional<LossScaler::State> before_overflow{}, before_nan{};  ///< to go back to if lowering does not help
  bool nan_is_overflow = false;                                      ///< the NaN is gone at the lowest loss scale
  AbortCause cause = AbortCause::kNone;                              ///< of the attempt that is investigated
  std::optional<RecoveryPoint> recovery{};                           ///< the newest whose weights made the step finite
  std::optional<Telemetry> raised{};  ///< of an extra run at a higher loss scale, see Warnings::proof_factor

  /// Samples that a replay can leave out, numbered as Experiments does.
  std::vector<std::int64_t> removable_samples() const;
  void nan_resolved();
};

/// Sets this thread's step context for one step, and restores the one before.
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
