#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "binade/amp/step/trainer.h"
#include "binade/core/step_context.h"

namespace binade::amp {

/// Puts this thread's place in the run back when a step ends, however it ends.
class StepContextScope {
 public:
  StepContextScope(std::uint64_t seed, std::int64_t step) : previous_(step_context()) {
    step_context() = StepContext{};
    step_context().seed = seed;
    step_context().step = static_cast<std::uint64_t>(step);
  }
  ~StepContextScope() { step_context() = std::move(previous_); }
  StepContextScope(const StepContextScope&) = delete;
  StepContextScope& operator=(const StepContextScope&) = delete;

 private:
  StepContext previous_;
};

/// What the attempts at one step share. Only the Trainer's own files include this.
struct Trainer::Trial {
  explicit Trial(const StepFeed& from) : feed(from) {
    plan.parts.resize(feed.origins.size());
    std::iota(plan.parts.begin(), plan.parts.end(), 0);
    if (feed.origins.front() != nullptr)
      plan.rows_per_part = static_cast<std::int64_t>(feed.origins.front()->samples.size());
  }

  const StepFeed& feed;
  Plan plan;
  std::vector<int> parts_left_out;
  std::optional<LossScaler::State> before_overflow, before_nan;  // what to go back to if lowering was no help
  bool nan_is_overflow = false;                                  // settled: it is gone at the floor
  AbortCause trouble = AbortCause::kNone;                        // why the investigated attempt failed
  std::optional<RecoveryPoint> recovery;                         // the newest whose weights made the step finite
  std::optional<Telemetry> raised;  // of an extra run at a higher loss scale, see Signs::proof_factor

  /// Rows that are left of one micro-batch.
  std::int64_t rows_of(int part) const {
    return plan.rows_per_part -
           std::ranges::count_if(plan.rows, [&](std::int64_t row) { return row / plan.rows_per_part == part; });
  }
  /// As Experiments numbers them.
  std::vector<std::int64_t> rows_that_can_go() const {
    std::vector<std::int64_t> rows;
    if (!feed.can_lose_rows || plan.rows_per_part == 0) return rows;
    for (const int part : plan.parts)
      for (std::int64_t row = 0; row < rows_of(part); ++row) rows.push_back(part * plan.rows_per_part + row);
    return rows;
  }
  /// The number in the whole batch of what is row `row % rows_per_part` of what is left of a micro-batch.
  std::int64_t original(std::int64_t row) const {
    const std::int64_t first = row / plan.rows_per_part * plan.rows_per_part;
    for (const std::int64_t gone : plan.rows)  // ascending
      if (gone >= first && gone <= row) ++row;
    return row;
  }
  void nan_resolved() {
    before_nan.reset();
    nan_is_overflow = false;
  }
};

}  // namespace binade::amp
