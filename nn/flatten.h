#pragma once

#include "binade/autograd/functions/shape.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// Options of Flatten.
struct FlattenOptions {
  int first = 1, last = -1;  ///< first and last merged dimension; -1: the last one
};

/// Merges dimensions [first, last] into one: (N, H, W, C) -> (N, H W C).
struct Flatten : OptionsModule<FlattenOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Flatten"; }
  Variable forward(const Variable& x) override { return flatten(x, options().first, options().last); }
};

}  // namespace binade::nn
