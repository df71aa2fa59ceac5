#pragma once

#include <memory>
#include <vector>

#include "binade/amp/step/participants.h"
#include "binade/nn/module.h"
#include "binade/optim/ema.h"

namespace binade::amp {

/// Returns the models of a trainer as the submodules of one module; null for a single model without a name. Throws
/// ArgumentError unless models and optimizers have unique names.
std::unique_ptr<nn::Module> group_of(const Participants& participants);

/// Makes the parameters of each model with NamedModel::average_of views of averages of the other model's parameters.
/// Returns these averages, one Ema per optimizer; null for an optimizer whose parameters no model follows.
std::vector<std::unique_ptr<optim::Ema>> follow(const Participants& participants);

}  // namespace binade::amp
