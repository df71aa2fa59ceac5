#pragma once

#include <cstdint>
#include <span>

#include "binade/amp/watch/telemetry.h"
#include "binade/optim/parameter_list.h"

namespace binade::amp {

/// A committed step, the input of detectors of early warnings and of metrics.
struct CommittedStep {
  std::int64_t step{};
  const Telemetry& telemetry;              ///< telemetry of the committed attempt
  const Telemetry* raised{};               ///< telemetry of an extra run at a higher loss scale; null if there was none
  const optim::ParameterList& parameters;  ///< of all optimizers
  double lr = 0;                           ///< largest learning rate of the step's updates
  double loss = 0;
  double grad_norm{};    ///< gradient norm before clipping
  double clip_norm = 0;  ///< upper bound of the gradient norm; 0: none
  /// For each parameter the bits of its largest gradient magnitude (optim::GradientScan::words); 0 if all of its
  /// gradients are 0.
  std::span<const std::uint32_t> largest_gradients{};
  std::span<const std::uint8_t> trained{};  ///< for each parameter 1 if a phase of the step trains it; empty: all
  double loss_scale{};
  double min_scale{};  ///< the lowest loss scale that the scaler can choose
  bool stochastic{};   ///< 16-bit weights are rounded stochastically
  bool promotes{};     ///< the run may promote ops to f32 before they leave a 16-bit range
};

}  // namespace binade::amp
