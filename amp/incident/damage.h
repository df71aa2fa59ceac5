#pragma once

#include <optional>

#include "binade/amp/incident/first_bad.h"
#include "binade/amp/verdict.h"
#include "binade/nn/module.h"
#include "binade/optim/ema.h"
#include "binade/optim/optimizer.h"
#include "binade/optim/parameter_list.h"

namespace binade::amp {

/// Returns the first weight, buffer, moment or averaged weight that is damaged: it is not finite, or it is a mean of
/// squares and negative. Its FirstBad::direction is "state". `averages`: the averaged weights of each optimizer; null
/// for an optimizer that has none.
std::optional<FirstBad> find_damage(nn::Module& model, std::span<optim::Optimizer* const> optimizers,
                                    std::span<optim::Ema* const> averages, std::int64_t step);

/// `input` describes the bad input of an op as a part of the batch. If a buffer of the op's module is not finite,
/// returns a copy of `input` that names this buffer instead (direction "state"); otherwise std::nullopt.
std::optional<FirstBad> find_bad_buffer(nn::Module& model, const FirstBad& input);

/// Returns the first parameter whose gradient is not finite. Its FirstBad::direction is "backward".
std::optional<FirstBad> find_bad_gradient(const Attempt& attempt, const optim::ParameterList& parameters);

}  // namespace binade::amp
