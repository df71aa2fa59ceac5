#pragma once

#include "nn/module.h"

namespace binade::nn {

/// max(x, 0), NaN kept.
class Relu : public Module {
 public:
  void visit(Visitor&) override {}
  std::string kind() const override { return "Relu"; }
  Variable forward(const Variable& x) override;
};

struct GeluOptions {
  bool tanh = false;  ///< the tanh form instead of erf
};

/// x Phi(x).
class Gelu : public Module {
 public:
  explicit Gelu(const GeluOptions& options = {}) : options_(options) {}
  void visit(Visitor&) override {}
  std::string kind() const override { return "Gelu"; }
  Variable forward(const Variable& x) override;

 private:
  GeluOptions options_;
};

}  // namespace binade::nn
