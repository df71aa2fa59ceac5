#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "binade/amp/policy.h"
#include "binade/amp/step/options.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// The lasting effects of remedies on a run: ops that are computed in f32 for a while, a lowered learning rate, and
/// the rollbacks so far, which bound further ones. Part of the run's state; a rollback does not undo it.
class RemediationPolicy {
 public:
  explicit RemediationPolicy(const RemediationOptions& options = {}) : options_(options) {}

  const RemediationOptions& options() const { return options_; }

  /// An op in f32: "PATH/op", as in PrecisionPolicy::Override.
  struct Promotion {
    std::string target{};
    std::int64_t until = 0;  ///< the last step it is for
    std::int64_t steps = 0;  ///< for how long it was given
    bool active = true;      ///< false: it ended, and is remembered in case it is needed again
  };
  const std::vector<Promotion>& promotions() const { return promotions_; }
  /// From `step` on. Returns the last step it applies to; 0 if it applies already.
  std::int64_t promote(const std::string& target, std::int64_t step);
  /// Ends promotions that expire after `step`, and extends those that would overflow again, as `needed` says. Returns
  /// the changes in words.
  std::vector<std::string> review(std::int64_t step, const std::function<bool(const std::string& target)>& needed);
  /// `policy` with the active promotions.
  Policy applied_to(Policy policy) const;

  /// Whether one more rollback is within bounds, and the step it must end after.
  bool may_roll_back(std::int64_t step) const;
  std::int64_t rollback_floor(std::int64_t step) const;
  void rolled_back(std::int64_t from, std::int64_t to, bool cut_lr);
  double lr_factor(std::int64_t step) const;
  /// The last step of the lowered learning rate; 0 when it was never lowered.
  std::int64_t lr_cut_until() const { return cut_until_; }

  StateDict state() const;
  /// Throws CheckpointError on a state that no run leaves behind.
  void check_state(const StateDict& state) const { decode(state); }
  void load_state(const StateDict& state) { *this = decode(state); }

 private:
  RemediationPolicy decode(const StateDict& state) const;

  RemediationOptions options_;
  std::vector<Promotion> promotions_;
  std::vector<std::int64_t> rollbacks_;  // pairs: from step, to step
  std::int64_t cut_from_ = 0, cut_until_ = 0;
  double cut_factor_ = 1;
};

using Ladder [[deprecated("use RemediationPolicy")]] = RemediationPolicy;

}  // namespace binade::amp
