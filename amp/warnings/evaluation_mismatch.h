#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "binade/amp/warnings/committed_step.h"
#include "binade/amp/warnings/warning.h"
#include "binade/core/state_dict.h"
#include "binade/nn/module.h"

namespace binade::amp {

/// Detects batch norms that evaluation will compute far from how training does, because the running statistics do not
/// describe the batches: each batch has a single sample, for example, and samples differ in brightness.
///
/// In every 50th step compares the mean of the step's batch with the running mean from before, in running standard
/// deviations: by so much evaluation would shift the values of this batch. If the median over the channels is above 3
/// in three checks in a row (100 steps), reports the norm, once per run.
class EvaluationMismatch {
 public:
  static constexpr const char* kSection = "evaluation_mismatch";
  static constexpr std::int64_t kStepsBetweenChecks = 50;
  static constexpr std::int64_t kChecksInARow = 3;
  static constexpr double kMostDeviations = 3;

  bool due(std::int64_t step) const { return step % kStepsBetweenChecks == 0; }
  /// Reads the statistics before the commit of a step that is due, when the buffers still have their values from before
  /// the step.
  void before_commit(nn::Module& model);
  void find(const CommittedStep& step, std::vector<Warning>& found);

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  struct Norm {
    std::string path{};
    std::int64_t checks = 0;    // checks in a row above the limit
    std::int64_t reported = 0;  // 1 after the warning
    double deviations = 0;      // of the last check
  };
  std::vector<Norm> norms_;
};

}  // namespace binade::amp
