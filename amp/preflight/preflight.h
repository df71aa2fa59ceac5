#pragma once

#include <functional>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/policy.h"
#include "binade/amp/preflight/finding.h"
#include "binade/core/step_context.h"
#include "binade/nn/module.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// A step as it is about to be trained.
struct PreflightStep {
  nn::Module& model;
  optim::Optimizer& optimizer;
  Policy policy = Policy::fp32();
  LossScaleOptions loss_scale = LossScaleOptions::off();
  double lr = 0;         ///< the highest of the schedule
  double ema_decay = 0;  ///< 0: no averages
  StepContext at{};      ///< seed and number of the step: what its random numbers follow from
};

/// Runs `closure` (the step's maths on one batch; it returns the loss) forward and backward under the policy, follows
/// what its ops can give by their contracts, and lists the places that are risky before the first step. What `closure`
/// throws becomes a finding. Of the run nothing changes: no weight, statistic, counter or random number; gradients are
/// forgotten afterwards. A scale at which gradients overflow costs further runs at lower ones.
///
/// With a Trainer, call its preflight().
PreflightReport preflight(const PreflightStep& step, const std::function<Variable()>& closure);

}  // namespace binade::amp
