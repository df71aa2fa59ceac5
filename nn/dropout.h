#pragma once

#include "binade/autograd/functions/elementwise.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// Options of Dropout.
struct DropoutOptions {
  double p = 0.5;  ///< probability of an element to be dropped
};

/// In training, sets each element of x to 0 with probability p, and otherwise to x / (1 - p). In evaluation, returns x.
struct Dropout : OptionsModule<DropoutOptions> {
  explicit Dropout(const DropoutOptions& options) : OptionsModule(options) {
    check<ArgumentError>(options.p >= 0 && options.p < 1, "Dropout: wanted p in [0, 1), got {}", options.p);
  }
  std::string kind() const override { return "Dropout"; }
  Variable forward(const Variable& x) override {
    check<ArgumentError>(x.defined(), "Dropout: x is undefined");
    return training() && options().p > 0 ? dropout(x, options().p) : x;
  }
};

}  // namespace binade::nn
