#pragma once

#include "core/ops/activation.h"
#include "nn/module.h"

namespace binade::nn {

struct LinearOptions {
  std::int64_t in = 0, out = 0;
  bool bias = true;
  Activation activation = Activation::kNone;  ///< applied as the product is stored
};

/// y = activation(x weight^T + bias): x (…, in), weight (out, in), bias (out), y (…, out). Initialized as PyTorch's:
/// weight and bias U(-1 / sqrt(in), 1 / sqrt(in)).
class Linear : public Module {
 public:
  explicit Linear(const LinearOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "Linear"; }
  Variable forward(const Variable& x) override;
  const LinearOptions& options() const { return options_; }

  Parameter weight, bias;  ///< bias is undefined without one

 private:
  LinearOptions options_;
};

/// Fills `weight` (and `bias` where defined) with U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), fan_in being the weight's.
void init_as_linear(Parameter& weight, Parameter& bias);

}  // namespace binade::nn
