#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/warning.h"
#include "binade/core/state_dict.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// Detects training that stagnates because updates are too small to change the weights.
///
/// Compares a sample of the weights before and after the update of every 50th step. If more than 99 % of those with a
/// nonzero gradient keep their bits in three checks in a row (100 steps), reports it once per dtype and run, with the
/// learning rate that would change half of them. Ignores weights that are rounded stochastically, because they change
/// on average, and steps whose learning rate is 100 times below the largest so far, because schedules end near 0.
///
/// A learning rate of exactly 0 in 20 steps in a row is reported too: a schedule has this rate in its first or last
/// step at most.
class Stagnation {
 public:
  static constexpr const char* kSection = "stagnation";
  static constexpr std::int64_t kStepsBetweenChecks = 50;  ///< steps between checks
  static constexpr int kChecksInARow = 3;                  ///< checks in a row without changes that lead to a warning
  static constexpr std::int64_t kStepsAtZeroLr = 20;  ///< steps in a row at a learning rate of 0 that lead to a warning

  bool due(std::int64_t step) const { return step % kStepsBetweenChecks == 0; }
  /// Samples the weights before an update with this input, in a step that is due. Call it for each optimizer.
  void before_update(optim::Optimizer& optimizer, const optim::StepInput& input);
  void discard_samples() { sample_.clear(); }
  /// Compares the sampled weights after the updates. `lr`: the largest learning rate of the updates; `stochastic`:
  /// 16-bit weights are rounded stochastically.
  std::optional<Warning> after_update(std::int64_t step, double lr, bool stochastic);
  void find(const CommittedStep& step, std::vector<Warning>& found) {
    find_zero_rate(step, found);
    if (!due(step.step)) return;
    if (auto warning = after_update(step.step, step.lr, step.stochastic)) found.push_back(std::move(*warning));
  }
  /// Returns the root mean square of the changes of the sampled weights in the last check; 0 before the first check.
  double update_rms() const { return update_rms_; }

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  void find_zero_rate(const CommittedStep& step, std::vector<Warning>& found);
  struct Weight {
    const optim::FlatParameters::Slice* parameter = nullptr;
    std::int64_t index{};  // index of the element in the parameter
    double value{};        // before the update
    double rate{};         // learning rate of the parameter
    double update{};       // magnitude of its update; 0: unknown
  };
  /// The weights of one dtype.
  struct Group {
    std::int64_t checks = 0;    // number of checks in a row in which its weights did not change
    std::int64_t reported = 0;  // 1 after the warning
  };
  Group& group_of(DType dtype) { return groups_[static_cast<std::size_t>(dtype)]; }

  std::vector<Weight> sample_;   // filled by before_update(), cleared by after_update()
  std::array<Group, 3> groups_;  // by dtype: f32, f16, bf16
  double largest_lr_ = 0;
  std::int64_t steps_at_zero_lr_ = 0;
  double update_rms_ = 0;
};

}  // namespace binade::amp
