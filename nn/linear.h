#pragma once

#include "binade/core/ops/linear.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// Options of Linear.
struct LinearOptions {
  std::int64_t in = 0, out = 0;  ///< values per row of x and of y
  bool bias = true;
  Activation activation = Activation::kNone;  ///< applied by the product as it stores its result
};

/// Computes y = activation(x weight^T + bias) for x (…, in), weight (out, in), bias (out) and y (…, out). Weight and
/// bias are initialized as in PyTorch, from U(-1 / sqrt(in), 1 / sqrt(in)).
///
/// Under a policy with fp8_linear, the operands of its products are rounded to 8 bits, with scales from the largest
/// magnitudes of earlier steps. Outside a step transaction, each forward in training mode counts as a step.
class Linear : public WeightedModule {
 public:
  explicit Linear(const LinearOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "Linear"; }
  Variable forward(const Variable& x) override { return with_weight(x, weight); }
  /// Computes forward(x) with another weight (out, in), which may be the result of ops.
  Variable with_weight(const Variable& x, const Variable& other);
  const LinearOptions& options() const { return options_; }

  Buffer fp8_amax;  ///< history that scales 8-bit products (core/ops/fp8.h); undefined unless use_fp8() created it

 private:
  std::optional<ops::Fp8Scaling> fp8_scaling();

  LinearOptions options_;
};

/// Fills `weight`, and `bias` if defined, with U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), with the weight's fan_in.
void init_as_linear(Parameter& weight, Parameter& bias);

/// Creates Linear::fp8_amax, the history of magnitudes, in every Linear of `root` (including itself) that has none or,
/// if not `on`, deletes it. Without a history, each tensor is scaled by its own largest magnitude. Trainer calls
/// use_fp8() according to its policy.
void use_fp8(Module& root, bool on = true);

}  // namespace binade::nn
