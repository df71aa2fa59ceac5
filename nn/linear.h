#pragma once

#include "binade/core/ops/linear.h"
#include "binade/nn/module.h"

namespace binade::nn {

struct LinearOptions {
  std::int64_t in = 0, out = 0;
  bool bias = true;
  Activation activation = Activation::kNone;  ///< applied as the product is stored
};

/// y = activation(x weight^T + bias): x (…, in), weight (out, in), bias (out), y (…, out). Initialized as PyTorch's:
/// weight and bias U(-1 / sqrt(in), 1 / sqrt(in)).
///
/// Under a policy with fp8_linear the products are of 8 bits. Scales then come from the magnitudes of the steps before:
/// a step is a step transaction, or outside of one a forward in training mode.
class Linear : public Module {
 public:
  explicit Linear(const LinearOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "Linear"; }
  Variable forward(const Variable& x) override;
  const LinearOptions& options() const { return options_; }

  Parameter weight, bias;  ///< bias is undefined without one
  Buffer fp8_amax;         ///< what 8-bit products are scaled by (core/ops/fp8.h); undefined unless use_fp8() made it

 private:
  std::optional<ops::Fp8Scaling> fp8_scaling();

  LinearOptions options_;
};

/// Fills `weight` (and `bias` where defined) with U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), fan_in being the weight's.
void init_as_linear(Parameter& weight, Parameter& bias);

/// Gives every Linear of `root` (itself included) the history that its 8-bit products are scaled by, or takes it away;
/// those that have one keep it. Without a history each tensor is scaled by its own largest magnitude. Trainer calls it
/// as its policy says.
void use_fp8(Module& root, bool on = true);

}  // namespace binade::nn
