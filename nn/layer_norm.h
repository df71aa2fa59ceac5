#pragma once

#include "binade/autograd/functions/norm.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// Options of LayerNorm.
struct LayerNormOptions {
  std::int64_t dim = 0;  ///< extent of the last dimension
  double eps = 1e-5;
  bool bias = true;
};

/// Layer norm over the last dimension of (…, dim), with weight (initially 1) and bias (0): see ops::LayerNorm.
class LayerNorm : public WeightedModule {
 public:
  explicit LayerNorm(const LayerNormOptions& o) : options_(o) {
    check<ArgumentError>(o.dim > 0 && o.eps >= 0, "LayerNorm: wanted dim > 0 and eps >= 0, got {} and {}", o.dim,
                         o.eps);
    weight = Parameter(Tensor::full({o.dim}, 1, DType::f32, Runtime::current_device()));
    if (o.bias) bias = Parameter(Tensor::zeros({o.dim}, DType::f32, Runtime::current_device()));
  }
  std::string kind() const override { return "LayerNorm"; }
  Variable forward(const Variable& x) override { return layer_norm(x, weight, bias, options_.eps); }

  using Module::operator();
  /// Returns h = x + residual and y = norm(h), computed in one pass.
  AddNormResult operator()(const Variable& x, const Variable& residual) {
    const ModuleScope scope(*this);
    return add_layer_norm(x, residual, weight, bias, options_.eps);
  }
  const LayerNormOptions& options() const { return options_; }

 private:
  LayerNormOptions options_;
};

}  // namespace binade::nn
