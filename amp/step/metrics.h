#pragma once

#include <span>
#include <string>
#include <vector>

#include "binade/amp/step/step_result.h"
#include "binade/amp/verdict.h"
#include "binade/amp/warnings/warnings.h"

namespace binade::amp {

class Transaction;

/// Metrics with the learning rate of each parameter group: "lr/OPTIMIZER/GROUP"; "lr/GROUP" if optimizers have no
/// names, "lr/OPTIMIZER" if there are no groups. There are none if the trainer has a single rate. Names are unique.
class LearningRates {
 public:
  /// `transaction` must outlive the object.
  explicit LearningRates(const Transaction& transaction);
  /// Returns the rates in the updates of a step.
  std::vector<StepMetric> of(std::span<const PhaseAttempt> phases) const;

 private:
  const Transaction& transaction_;
  std::vector<std::vector<std::string>> names_;  // by optimizer and parameter class; empty if there is one rate
};

/// The input of the metrics of a committed step.
struct MetricSource {
  const CommittedStep& step;
  const StepResult& result;       ///< result of the step, still without metrics
  std::vector<StepMetric> rates;  ///< LearningRates::of()
  const Warnings& warnings;       ///< the detectors of the run, which have already read the step
};

/// Computes the metrics of a committed step: the learning rates, then the others in the order of the table in
/// metrics.cpp.
std::vector<StepMetric> metrics_of(const MetricSource& source);

}  // namespace binade::amp
