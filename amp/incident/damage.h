#pragma once

#include <optional>

#include "binade/amp/incident/first_bad.h"
#include "binade/amp/verdict.h"
#include "binade/nn/module.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// The first weight, moment or buffer that no training step leaves behind: one that is not finite, or a mean of squares
/// below 0. Direction "state".
std::optional<FirstBad> find_damage(nn::Module& model, const optim::Optimizer& optimizer, std::int64_t step);

/// The first parameter whose gradient is not finite, where no op is known that made it so. Direction "backward".
std::optional<FirstBad> find_bad_gradient(const Attempt& state, const optim::FlatParameters& parameters);

}  // namespace binade::amp
