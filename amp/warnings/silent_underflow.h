#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/warning.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Finds values that underflow when they are rounded to 16 bits, and distinguishes them from intended zeros.
///
/// Checks every 50th step. An op is suspect if its largest magnitude rounds to 0, or if more than half of a sample of
/// the gradients that it returns is 0. The former proves an underflow. The latter may be intended (a ReLU, a mask, an
/// embedding row that no token used): after three suspect checks in a row (100 steps) the step's backward is run once
/// more at a higher loss scale. Zeros that underflowed become nonzero there: if more than half of the values that are
/// then nonzero were 0 before, the warning is reported. Zeros that stay are recorded as legal.
class SilentUnderflow {
 public:
  static constexpr const char* kSection = "underflow";     ///< name of the state in checkpoints
  static constexpr std::int64_t kStepsBetweenChecks = 50;  ///< steps between checks
  static constexpr int kChecksInARow = 3;                  ///< suspect checks in a row that lead to a decision

  /// Returns true if this step is checked.
  bool due(std::int64_t step) const { return step % kStepsBetweenChecks == 0; }
  /// Returns the factor by which to raise the loss scale of an extra run of this step that decides about suspects;
  /// std::nullopt if there are none, or if gradients would overflow. observe() takes the extra run's telemetry.
  std::optional<double> confirmation_factor(std::int64_t step) const;
  /// Checks a committed step that is due, with the telemetry of the step and of the extra run (null if there was none),
  /// both with Probes::zeros. Returns at most one warning, for the first op whose values underflow. Each op is reported
  /// once in a run.
  std::optional<Warning> observe(std::int64_t step, double loss_scale, const Telemetry& telemetry,
                                 const Telemetry* raised);

  /// Adds warnings of this step to `found`.
  void find(const CommittedStep& step, std::vector<Warning>& found) {
    if (!due(step.step)) return;
    if (auto warning = observe(step.step, step.loss_scale, step.telemetry, step.raised))
      found.push_back(std::move(*warning));
  }

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  /// An op call, in one direction, with the results of its checks.
  struct Candidate {
    std::string module{}, op{};
    std::int64_t checks = 0;  // number of checks in a row in which it was suspect
    bool vanished = false;    // in the last check, its largest magnitude rounded to 0
    bool reported = false;
    double legal = 0.5;  // share of zeros that is not suspect
  };
  /// A candidate that lost nonzero values in a check.
  struct Underflow {
    std::size_t index{};  // index of the candidate
    double lost{};        // share of the nonzero values that became 0
  };
  std::vector<Underflow> find_underflows(std::vector<Candidate>& candidates,
                                         std::span<const Telemetry::OpRecord> records,
                                         std::span<const Telemetry::OpRecord> raised, bool decided);

  std::vector<Candidate> forward_, backward_;  // by tape index
  double headroom_ = 0;                        // smallest backward headroom in the last check
};

}  // namespace binade::amp
