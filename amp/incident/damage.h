#pragma once

#include <optional>

#include "binade/amp/incident/first_bad.h"
#include "binade/amp/verdict.h"
#include "binade/nn/module.h"
#include "binade/optim/ema.h"
#include "binade/optim/optimizer.h"
#include "binade/optim/parameter_list.h"

namespace binade::amp {

/// Returns the first weight, moment, buffer or averaged weight that is damaged: not finite, or a negative mean of
/// squares. Its FirstBad::direction is "state". `averages`: one
/// per optimizer, may be null.
std::optional<FirstBad> find_damage(nn::Module& model, std::span<optim::Optimizer* const> optimizers,
                                    std::span<optim::Ema* const> averages, std::int64_t step);

/// Returns `input`, the bad input of an op, as a buffer of the op's module if one is not finite: an op cannot tell
/// buffers from parts of the batch.
std::optional<FirstBad> find_bad_buffer(nn::Module& model, const FirstBad& input);

/// Returns the first parameter whose gradient is not finite. Its FirstBad::direction is "backward".
std::optional<FirstBad> find_bad_gradient(const Attempt& attempt, const optim::ParameterList& parameters);

}  // namespace binade::amp
