#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "binade/amp/policy.h"
#include "binade/amp/step/options.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// The lasting effects of remedies on a run: promoted ops, a lowered learning rate, and the rollbacks so far, whose
/// number is limited. They are part of the run's state, but a rollback does not undo them.
class RemediationPolicy {
 public:
  explicit RemediationPolicy(const RemediationOptions& options = {}) : options_(options) {}

  const RemediationOptions& options() const { return options_; }

  /// An op that is computed in f32 for a while.
  struct Promotion {
    std::string target{};    ///< "PATH/op", as in PrecisionPolicy::Override
    std::int64_t until = 0;  ///< last step of the promotion
    std::int64_t steps = 0;  ///< duration in steps
    bool active = true;      ///< false after its end: if the op needs a promotion again, it lasts twice as long
  };
  const std::vector<Promotion>& promotions() const { return promotions_; }
  /// Promotes an op from `step` on. Returns the last step of the promotion; 0 if it is active already.
  std::int64_t promote(const std::string& target, std::int64_t step);
  /// Ends the promotions that expire after `step`, or extends those for which `needed(target)` is true. Returns a
  /// description of each change.
  std::vector<std::string> review(std::int64_t step, const std::function<bool(const std::string& target)>& needed);
  /// Returns `policy` with the active promotions.
  Policy applied_to(Policy policy) const;

  /// True if the bounds allow one more rollback.
  bool may_roll_back(std::int64_t step) const;
  /// Returns the highest step to which a recent rollback returned, or -1 if there was none. A further rollback must
  /// return to a later checkpoint.
  std::int64_t rollback_floor(std::int64_t step) const;
  /// Records a rollback from step `from` to step `to`. `cut_lr`: the learning rate is lowered for a while.
  void rolled_back(std::int64_t from, std::int64_t to, bool cut_lr);
  /// Returns the factor by which rollbacks lower the learning rate of a step.
  double lr_factor(std::int64_t step) const;
  /// Returns the last step with a lowered learning rate; 0 if it was never lowered.
  std::int64_t lr_cut_until() const { return cut_until_; }

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved.
  void check_state(const StateDict& state) const { decode(state); }
  void load_state(const StateDict& state) { *this = decode(state); }

 private:
  RemediationPolicy decode(const StateDict& state) const;

  RemediationOptions options_;
  std::vector<Promotion> promotions_;
  std::vector<std::int64_t> rollbacks_;  // a pair of numbers per rollback: the step before it, the step after it
  std::int64_t cut_from_ = 0, cut_until_ = 0;
  double cut_factor_ = 1;
};

using Ladder [[deprecated("use RemediationPolicy")]] = RemediationPolicy;

}  // namespace binade::amp
