#pragma once

#include "binade/autograd/functions/shape.h"
#include "binade/nn/module.h"

namespace binade::nn {

struct FlattenOptions {
  int first = 1, last = -1;
};

/// Merges dimensions [first, last] into one: (N, H, W, C) -> (N, H W C).
class Flatten : public StatelessModule {
 public:
  explicit Flatten(const FlattenOptions& options = {}) : options_(options) {}
  std::string kind() const override { return "Flatten"; }
  Variable forward(const Variable& x) override { return flatten(x, options_.first, options_.last); }

 private:
  FlattenOptions options_;
};

}  // namespace binade::nn
