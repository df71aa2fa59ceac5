#include "nn/linear.h"

#include <cmath>

#include "autograd/functions/matmul.h"
#include "core/error.h"
#include "nn/init.h"

namespace binade::nn {

void init_as_linear(Parameter& weight, Parameter& bias) {
  // PyTorch's kaiming_uniform with slope sqrt(5) comes to this bound.
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, init::fans(weight.shape()).in)));
  init::uniform(weight, -bound, bound);
  if (bias.defined()) init::uniform(bias, -bound, bound);
}

Linear::Linear(const LinearOptions& o) : options_(o) {
  check<ArgumentError>(o.in > 0 && o.out > 0, "Linear: wanted in > 0 and out > 0, got {} and {}", o.in, o.out);
  weight = Parameter(Tensor::empty({o.out, o.in}, DType::f32, Runtime::current_device()));
  if (o.bias) bias = Parameter(Tensor::empty({o.out}, DType::f32, Runtime::current_device()));
  init_as_linear(weight, bias);
}

void Linear::visit(Visitor& v) {
  v("weight", weight);
  v("bias", bias);
}

Variable Linear::forward(const Variable& x) { return linear(x, weight, bias, {.activation = options_.activation}); }

}  // namespace binade::nn
