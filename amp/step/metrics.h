#pragma once

#include <span>

#include "binade/amp/step/step_result.h"
#include "binade/amp/verdict.h"
#include "binade/amp/warnings/warnings.h"

namespace binade::amp {

class Transaction;

/// Returns the learning rate of each parameter group, "lr/OPTIMIZER/GROUP", in the updates of a step. Without named
/// optimizers "lr/GROUP", without groups "lr/OPTIMIZER"; empty if the trainer has one rate.
std::vector<StepMetric> learning_rates(const Transaction& transaction, std::span<const PhaseAttempt> phases);

/// The input of the metrics of a committed step.
struct MetricSource {
  const CommittedStep& step;
  const StepResult& result;       ///< result of the step, still without metrics
  std::vector<StepMetric> rates;  ///< learning_rates()
  const Warnings& warnings;       ///< the detectors of the run, which have already read the step
};

/// Computes the metrics of a committed step: the learning rates, then the others in the order of the table in
/// metrics.cpp.
std::vector<StepMetric> metrics_of(const MetricSource& source);

}  // namespace binade::amp
