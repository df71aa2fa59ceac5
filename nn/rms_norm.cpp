#include "binade/nn/rms_norm.h"

#include "binade/core/error.h"

namespace binade::nn {

RmsNorm::RmsNorm(const RmsNormOptions& o) : options_(o) {
  check<ArgumentError>(o.dim > 0 && o.eps >= 0, "RmsNorm: wanted dim > 0 and eps >= 0, got {} and {}", o.dim, o.eps);
  weight = Parameter(Tensor::full({o.dim}, 1, DType::f32, Runtime::current_device()));
}

Variable RmsNorm::forward(const Variable& x) { return rms_norm(x, weight, options_.eps); }

AddNormResult RmsNorm::operator()(const Variable& x, const Variable& residual) {
  const ModuleScope scope(*this);
  return add_rms_norm(x, residual, weight, options_.eps);
}

}  // namespace binade::nn
