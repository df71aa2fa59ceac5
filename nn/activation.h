#pragma once

#include "binade/autograd/functions/elementwise.h"
#include "binade/nn/module.h"

/// The activations as modules, for Sequential; formulas in core/ops/unary.h. Each keeps NaN.
namespace binade::nn {

/// max(x, 0).
class Relu : public Module {
 public:
  void visit(Visitor&) override {}
  std::string kind() const override { return "Relu"; }
  Variable forward(const Variable& x) override { return relu(x); }
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
  Variable forward(const Variable& x) override { return options_.tanh ? gelu_tanh(x) : gelu(x); }

 private:
  GeluOptions options_;
};

/// x sigmoid(x).
class Silu : public Module {
 public:
  void visit(Visitor&) override {}
  std::string kind() const override { return "Silu"; }
  Variable forward(const Variable& x) override { return silu(x); }
};

/// 1 / (1 + exp(-x)).
class Sigmoid : public Module {
 public:
  void visit(Visitor&) override {}
  std::string kind() const override { return "Sigmoid"; }
  Variable forward(const Variable& x) override { return sigmoid(x); }
};

/// tanh(x).
class Tanh : public Module {
 public:
  void visit(Visitor&) override {}
  std::string kind() const override { return "Tanh"; }
  Variable forward(const Variable& x) override { return tanh(x); }
};

}  // namespace binade::nn
