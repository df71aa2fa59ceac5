#pragma once

#include <functional>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/policy.h"
#include "binade/amp/preflight/finding.h"
#include "binade/autograd/excluded_leaves.h"
#include "binade/core/step_context.h"
#include "binade/nn/module.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// The settings of the first step.
struct PreflightStep {
  nn::Module& model;
  optim::Optimizer& optimizer;
  Policy policy = Policy::fp32();
  LossScaleOptions loss_scale = LossScaleOptions::off();
  double lr = 0;         ///< highest learning rate of the schedule
  double ema_decay = 0;  ///< decay of the averaged weights; 0: there are none
  StepContext at{};      ///< seed and number of the step, which determine its random numbers
  LeafSet excluded{};    ///< parameters that the step does not train: backward computes no gradients of them
};

/// Finds the numerical risks of training steps before the first one. Runs forward and backward of `closure`, which
/// computes the loss of one batch, derives the ranges of all results from the contracts of the ops, and applies the
/// rules. An exception of `closure` becomes a finding. If gradients overflow, repeats the run at lower loss scales.
/// Changes no weight, statistic, counter or random number, and clears the gradients.
///
/// With a Trainer, call Trainer::preflight().
PreflightReport preflight(const PreflightStep& step, const std::function<Variable()>& closure);

}  // namespace binade::amp
