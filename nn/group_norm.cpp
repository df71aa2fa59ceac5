#include "binade/nn/group_norm.h"

#include "binade/autograd/functions/norm.h"
#include "binade/core/error.h"

namespace binade::nn {

GroupNorm::GroupNorm(const GroupNormOptions& o) : options_(o) {
  check<ArgumentError>(o.channels > 0 && o.groups > 0 && o.channels % o.groups == 0,
                       "GroupNorm: wanted channels in equal groups, got {} channels and {} groups", o.channels,
                       o.groups);
  check<ArgumentError>(o.eps >= 0, "GroupNorm: wanted eps >= 0, got {}", o.eps);
  weight = Parameter(Tensor::full({o.channels}, 1, DType::f32, Runtime::current_device()));
  bias = Parameter(Tensor::zeros({o.channels}, DType::f32, Runtime::current_device()));
}

void GroupNorm::visit(Visitor& v) {
  v("weight", weight);
  v("bias", bias);
}

Variable GroupNorm::operator()(const Variable& x, const Variable& residual) {
  const ModuleScope scope(*this);
  return forward(x, residual);
}

Variable GroupNorm::forward(const Variable& x, const Variable& residual) {
  return group_norm(x, options_.groups, weight, bias,
                    {.eps = options_.eps, .relu = options_.relu, .residual = residual});
}

}  // namespace binade::nn
