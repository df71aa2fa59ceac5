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

/// Detects batch norms whose running statistics do not describe the batches, so that the norm computes something else
/// in evaluation than in training. Example: each batch has a single sample, and samples differ in brightness.
///
/// In every 50th step compares the mean of the step's batch with the running mean from before, in running standard
/// deviations. By this distance, evaluation would shift the values of this batch. If the median of the distance over
/// the channels is above 3 in three checks in a row (100 steps), the norm is reported, once per run.
class EvaluationMismatch {
 public:
  static constexpr const char* kSection = "evaluation_mismatch";  ///< name of the state in checkpoints
  static constexpr std::int64_t kStepsBetweenChecks = 50;
  static constexpr std::int64_t kChecksInARow = 3;  ///< checks in a row above the limit that lead to a warning
  static constexpr double kMostDeviations = 3;      ///< the limit, in running standard deviations

  /// Returns true if this step is checked.
  bool due(std::int64_t step) const { return step % kStepsBetweenChecks == 0; }
  /// Reads the statistics before the commit of a step that is due, when the buffers still have their values from before
  /// the step.
  void before_commit(nn::Module& model);
  /// Adds warnings of this step to `found`.
  void find(const CommittedStep& step, std::vector<Warning>& found);

  StateDict state() const;
  /// Throws CheckpointError for values that no run can have saved. An empty state resets the object.
  void load_state(const StateDict& state);

 private:
  /// A batch norm of the model, and the results of its checks so far.
  struct Norm {
    std::string path{};
    std::int64_t checks = 0;    // checks in a row above the limit
    std::int64_t reported = 0;  // 1 after the warning
    double deviations = 0;      // median distance in the last check, in running standard deviations
  };
  std::vector<Norm> norms_;
};

}  // namespace binade::amp
