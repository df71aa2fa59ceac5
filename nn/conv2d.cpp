#include "binade/nn/conv2d.h"

#include "binade/autograd/functions/conv.h"
#include "binade/core/error.h"
#include "binade/nn/linear.h"

namespace binade::nn {

Conv2d::Conv2d(const Conv2dOptions& o) : options_(o) {
  check<ArgumentError>(o.in > 0 && o.out > 0 && o.groups > 0 && o.in % o.groups == 0 && o.out % o.groups == 0,
                       "Conv2d: wanted in and out > 0 in equal groups, got {} and {} in {} groups", o.in, o.out,
                       o.groups);
  check<ArgumentError>(o.kernel.y > 0 && o.kernel.x > 0, "Conv2d: wanted a kernel of 1 or more, got {}", o.kernel);
  weight = Parameter(
      Tensor::empty({o.out, o.kernel.y, o.kernel.x, o.in / o.groups}, DType::f32, Runtime::current_device()));
  if (o.bias) bias = Parameter(Tensor::empty({o.out}, DType::f32, Runtime::current_device()));
  init_as_linear(weight, bias);
}

void Conv2d::visit(Visitor& v) {
  v("weight", weight);
  v("bias", bias);
}

Variable Conv2d::forward(const Variable& x) {
  return conv2d(x, weight, bias,
                {.stride = options_.stride,
                 .padding = options_.padding,
                 .dilation = options_.dilation,
                 .groups = options_.groups});
}

}  // namespace binade::nn
