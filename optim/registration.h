#pragma once

#include <span>
#include <string>

#include "binade/autograd/gradient_owner.h"
#include "binade/optim/optimizer.h"

namespace binade::optim {

/// Returns "the parameter 'head.weight' (f32 (4, 8)), which 'linear' in head reads"; without a name if it has no path.
/// `name`: its path, or an empty text.
std::string describe(const UnheldLeaf& parameter, const std::string& name);

/// For a hand-written loop, before its optimizers are stepped. Throws ArgumentError if a backward of this thread that
/// computed gradients for one of these optimizers also reached an nn::Parameter that no optimizer holds: that parameter
/// would never change. Parameters with requires_grad(false) and variables that are no nn::Parameter are fine.
void check_registration(std::span<Optimizer* const> optimizers);

/// For a hand-written loop, before its optimizers are stepped with finite gradients. Throws NumericError, whose text
/// starts with `who`, if the update would write numbers that are not finite.
void check_update(const std::string& who, const UpdateProof& proof);

}  // namespace binade::optim
