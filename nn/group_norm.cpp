#include "nn/group_norm.h"

#include "autograd/functions/norm.h"
#include "core/error.h"

namespace binade::nn {

GroupNorm::GroupNorm(const GroupNormOptions& o) : options_(o) {
  check<ArgumentError>(o.channels > 0 && o.groups > 0 && o.channels % o.groups == 0,
                       "GroupNorm: wanted channels in equal groups, got {} channels and {} groups", o.channels,
                       o.groups);
  weight = Parameter(Tensor::full({o.channels}, 1));
  bias = Parameter(Tensor::zeros({o.channels}));
}

void GroupNorm::visit(Visitor& v) {
  v("weight", weight);
  v("bias", bias);
}

Variable GroupNorm::forward(const Variable& x) { return group_norm(x, options_.groups, weight, bias, options_.eps); }

}  // namespace binade::nn
