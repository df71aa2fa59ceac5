#pragma once

#include <cstdint>

#include "binade/amp/watch/telemetry.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// A committed step, as detectors of early warnings and metrics read it.
struct CommittedStep {
  std::int64_t step{};
  const Telemetry& seen;      ///< of the attempt that was committed
  const Telemetry* raised{};  ///< of the extra run at a higher loss scale; null if there was none
  const optim::Optimizer& optimizer;
  const optim::StepInput& input;
  double loss = 0;
  double grad_norm{};  ///< before clipping
  double loss_scale{};
  double least_scale{};  ///< lowest scale that the loss scaler can reach
  bool stochastic{};     ///< 16-bit weights are rounded stochastically
  bool prevents{};       ///< compute ops in f32 before they leave a 16-bit range
};

}  // namespace binade::amp
