#pragma once

#include "binade/autograd/functions/norm.h"
#include "binade/nn/module.h"

namespace binade::nn {

struct LayerNormOptions {
  std::int64_t dim = 0;
  double eps = 1e-5;
  bool bias = true;
};

/// Layer norm over the last dimension, (…, dim), with weight (1 at first) and bias (0): see ops::LayerNorm.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const LayerNormOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "LayerNorm"; }
  Variable forward(const Variable& x) override;

  using Module::operator();
  /// h = x + residual, y = norm(h), in one pass.
  AddNormResult operator()(const Variable& x, const Variable& residual);
  const LayerNormOptions& options() const { return options_; }

  Parameter weight, bias;

 private:
  LayerNormOptions options_;
};

}  // namespace binade::nn
