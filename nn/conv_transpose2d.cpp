#include "binade/nn/conv_transpose2d.h"

#include "binade/autograd/functions/conv.h"
#include "binade/core/error.h"
#include "binade/nn/linear.h"

namespace binade::nn {

ConvTranspose2d::ConvTranspose2d(const ConvTranspose2dOptions& o) : options_(o) {
  check<ArgumentError>(o.in > 0 && o.out > 0 && o.groups > 0 && o.in % o.groups == 0 && o.out % o.groups == 0,
                       "ConvTranspose2d: wanted in and out > 0 in equal groups, got {} and {} in {} groups", o.in,
                       o.out, o.groups);
  check<ArgumentError>(o.kernel.y > 0 && o.kernel.x > 0, "ConvTranspose2d: wanted a kernel of 1 or more, got {}",
                       o.kernel);
  weight = Parameter(
      Tensor::empty({o.in, o.kernel.y, o.kernel.x, o.out / o.groups}, DType::f32, Runtime::current_device()));
  if (o.bias) bias = Parameter(Tensor::empty({o.out}, DType::f32, Runtime::current_device()));
  init_as_linear(weight, bias);
}

void ConvTranspose2d::visit(Visitor& v) {
  v("weight", weight);
  v("bias", bias);
}

Variable ConvTranspose2d::operator()(const Variable& x, const ops::OutputView& into) {
  const ModuleScope scope(*this);
  return forward(x, into);
}

Variable ConvTranspose2d::forward(const Variable& x, const ops::OutputView& into) {
  return conv_transpose2d(x, weight, bias,
                          {.stride = options_.stride,
                           .padding = options_.padding,
                           .output_padding = options_.output_padding,
                           .dilation = options_.dilation,
                           .groups = options_.groups,
                           .into = into});
}

}  // namespace binade::nn
