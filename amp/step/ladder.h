#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "binade/amp/policy.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Bounds of what remedies may do to a run.
struct LadderOptions {
  std::int64_t promoted_steps = 1000;  ///< for which an op stays in f32; doubled each time it is needed again
  std::int64_t skips = 5;              ///< batches passed over within one step
  std::int64_t incidents = 16;         ///< within one step
  std::int64_t rollbacks = 3;          ///< within `window` steps
  std::int64_t window = 1000;
  double lr_cut = 0.5;              ///< of the learning rate after a rollback that data or updates made necessary
  std::int64_t lr_cut_steps = 200;  ///< for which it lasts
};

/// What remedies leave behind in a run: ops that are computed in f32 for a while, a lowered learning rate, and which
/// rollbacks there were. Part of the run's state; a rollback does not undo it.
class Ladder {
 public:
  explicit Ladder(const LadderOptions& options = {}) : options_(options) {}

  const LadderOptions& options() const { return options_; }

  /// An op in f32: "PATH/op", as in PrecisionPolicy::Override.
  struct Promotion {
    std::string target{};
    std::int64_t until = 0;  ///< the last step it is for
    std::int64_t steps = 0;  ///< for how long it was given
    bool active = true;      ///< false: it ended, and is remembered in case it is needed again
  };
  const std::vector<Promotion>& promotions() const { return promotions_; }
  /// From `step` on. Returns the last step it holds for; 0 when it holds already.
  std::int64_t promote(const std::string& target, std::int64_t step);
  /// Ends promotions whose time is over after `step`, except those that `needed` says would overflow again: those go
  /// on. Returns what changed, in words.
  std::vector<std::string> review(std::int64_t step, const std::function<bool(const std::string& target)>& needed);
  /// `policy` with what is promoted in `step`.
  Policy applied_to(Policy policy) const;

  /// Whether one more rollback is within bounds, and how far it may not go: only to steps after `floor`.
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
  Ladder decode(const StateDict& state) const;

  LadderOptions options_;
  std::vector<Promotion> promotions_;
  std::vector<std::int64_t> rollbacks_;  // pairs: from step, to step
  std::int64_t cut_from_ = 0, cut_until_ = 0;
  double cut_factor_ = 1;
};

}  // namespace binade::amp
