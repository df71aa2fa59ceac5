#include "binade/nn/layer_norm.h"

#include "binade/core/error.h"

namespace binade::nn {

LayerNorm::LayerNorm(const LayerNormOptions& o) : options_(o) {
  check<ArgumentError>(o.dim > 0 && o.eps >= 0, "LayerNorm: wanted dim > 0 and eps >= 0, got {} and {}", o.dim, o.eps);
  weight = Parameter(Tensor::full({o.dim}, 1, DType::f32, Runtime::current_device()));
  if (o.bias) bias = Parameter(Tensor::zeros({o.dim}, DType::f32, Runtime::current_device()));
}

void LayerNorm::visit(Visitor& v) {
  v("weight", weight);
  v("bias", bias);
}

Variable LayerNorm::forward(const Variable& x) { return layer_norm(x, weight, bias, options_.eps); }

AddNormResult LayerNorm::operator()(const Variable& x, const Variable& residual) {
  const ModuleScope scope(*this);
  return add_layer_norm(x, residual, weight, bias, options_.eps);
}

}  // namespace binade::nn
