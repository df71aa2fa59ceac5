#pragma once

#include "binade/nn/module.h"

namespace binade::nn {

struct DropoutOptions {
  double p = 0.5;  ///< share of values set to 0
};

/// In training each value is 0 with probability p, else x / (1 - p); in evaluation x itself.
class Dropout : public Module {
 public:
  explicit Dropout(const DropoutOptions& options);
  void visit(Visitor&) override {}
  std::string kind() const override { return "Dropout"; }
  Variable forward(const Variable& x) override;

 private:
  DropoutOptions options_;
};

}  // namespace binade::nn
