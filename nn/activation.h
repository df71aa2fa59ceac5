#pragma once

#include "binade/autograd/functions/elementwise.h"
#include "binade/nn/module.h"

/// Activations as modules, for example as layers of Sequential. Their formulas and derivatives are in core/ops/unary.h.
/// All propagate NaN.
namespace binade::nn {

/// A layer that applies a function of one variable.
template <Variable (*kFunction)(const Variable&)>
class FunctionModule : public StatelessModule {
 public:
  Variable forward(const Variable& x) override { return kFunction(x); }
};

/// Applies max(x, 0).
struct Relu : FunctionModule<relu> {
  std::string kind() const override { return "Relu"; }
};
/// Applies x sigmoid(x).
struct Silu : FunctionModule<silu> {
  std::string kind() const override { return "Silu"; }
};
/// Applies 1 / (1 + exp(-x)).
struct Sigmoid : FunctionModule<sigmoid> {
  std::string kind() const override { return "Sigmoid"; }
};
/// Applies tanh(x).
struct Tanh : FunctionModule<tanh> {
  std::string kind() const override { return "Tanh"; }
};

/// Options of Gelu.
struct GeluOptions {
  bool tanh = false;  ///< true: uses the tanh approximation of Phi; false: uses erf
};

/// Applies x Phi(x), where Phi is the normal distribution function.
struct Gelu : OptionsModule<GeluOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Gelu"; }
  Variable forward(const Variable& x) override { return options().tanh ? gelu_tanh(x) : gelu(x); }
};

}  // namespace binade::nn
