#pragma once

#include <span>

#include "binade/amp/step/step_result.h"
#include "binade/amp/warnings/warnings.h"

namespace binade::amp {

/// The input of the metrics of a committed step.
struct MetricSource {
  const CommittedStep& step;
  const StepResult& result;  ///< result of the step, still without metrics
  const Warnings& warnings;  ///< the detectors of the run, which have already read the step
};

/// Computes the metrics of a committed step, in the order of the table in metrics.cpp.
std::vector<StepMetric> metrics_of(const MetricSource& source);

}  // namespace binade::amp
