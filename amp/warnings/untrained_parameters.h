#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/warning.h"
#include "binade/core/state_dict.h"

namespace binade::amp {

/// Detects parameters that are not trained, because in many steps in a row they get no gradient, or a gradient of
/// exactly 0. The reason may be that their module is never called, that its results are detached, or that a later op
/// makes the gradient 0 (dead ReLUs, a saturated gate, a factor of 0).
///
/// Counts the committed steps in a row in which the largest gradient of a parameter is 0. A step with a loss of 0 and
/// gradients of 0 does not count, because at its minimum a loss has no gradient (a hinge loss, a sparse reward). A
/// module is reported, once per run, after 100 such steps in a row, or after 8 times the number of steps in the longest
/// earlier sequence, if that is more. Only matrices are judged, and the vectors of modules without matrices: a bias can
/// be redundant in a healthy model. The telemetry of every 4th step shows the reason. If rounding to 16 bits made the
/// gradients 0, SilentUnderflow reports that instead.
class UntrainedParameters {
 public:
  static constexpr const char* kSection = "untrained_parameters";
  static constexpr std::int64_t kStepsBetweenReports = 4;
  static constexpr std::int64_t kSteps = 100;  ///< number of steps in a row without a gradient that a warning requires
  /// The same, as a multiple of the longest earlier sequence: a warning requires the larger number
  static constexpr std::int64_t kLongerThan = 8;

  void find(const CommittedStep& step, std::vector<Warning>& found);

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  struct Stretch {
    std::int64_t steps = 0;     // steps in a row without a gradient
    std::int64_t longest = 0;   // longest such stretch that ended
    std::int64_t reported = 0;  // 1 after the warning
    bool is_due() const { return steps >= std::max(kSteps, kLongerThan * longest); }
  };
  void count(const CommittedStep& step);
  std::vector<Stretch> stretches_;  // by the index of the parameter in CommittedStep::parameters
};

}  // namespace binade::amp
