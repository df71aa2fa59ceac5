#pragma once

#include "binade/autograd/functions/shape.h"
#include "binade/nn/module.h"

namespace binade::nn {

struct FlattenOptions {
  int first = 1, last = -1;
};

/// Dimensions [first, last] made one: (N, H, W, C) -> (N, H W C).
class Flatten : public Module {
 public:
  explicit Flatten(const FlattenOptions& options = {}) : options_(options) {}
  void visit(Visitor&) override {}
  std::string kind() const override { return "Flatten"; }
  Variable forward(const Variable& x) override { return flatten(x, options_.first, options_.last); }

 private:
  FlattenOptions options_;
};

}  // namespace binade::nn
