#include "binade/autograd/derivatives/formulas.h"

#include "binade/autograd/derivatives/constant_slope.h"
#include "binade/autograd/functions/math.h"
#include "binade/autograd/grad.h"

namespace binade::derivatives {

Variable wide(const Variable& x) {
  if (!is_floating(x.dtype())) return x.value().to(DType::f32);
  return cast(x, accumulate_dtype(x.dtype()));
}

Variable to_sum_dtype_of(const Variable& t, const Variable& x) {
  const DType dtype = accumulate_dtype(x.dtype());
  return is_floating(t.dtype()) ? cast(t, dtype) : Variable(t.value().to(dtype));
}

Variable quotient(const Variable& x, std::int64_t divisor) {
  return cast(floor(cast(x, DType::f64) / static_cast<double>(divisor)), DType::i64);
}

std::vector<std::int64_t> dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

Variable shaped(const Variable& x, const Shape& shape) { return x.shape() == shape ? x : reshape(x, dims_of(shape)); }

Variable sum_to(const Variable& g, const Shape& shape) {
  if (g.shape() == shape) return g;
  const int added = g.value().rank() - shape.rank();
  std::vector<int> axes;
  for (int d = 0; d < g.value().rank(); ++d)
    if (d < added || (shape.dim(d - added) == 1 && g.dim(d) != 1)) axes.push_back(d);
  return shaped(axes.empty() ? g : sum(g, axes), shape);
}

Variables by_composition(const Variables& inputs, const std::function<Variable(const Variables&)>& f,
                         const Variable& gy) {
  const Variable y = f(inputs);
  return grad(Variables{y}, inputs, {.grad_outputs = {shaped(gy, y.shape())}, .create_graph = true});
}

Variable gelu_derivative(const Variable& any) {
  const Variable x = wide(any);
  const Variable distribution = (erf(x * 0.70710678118654752440) + 1) * 0.5;
  const Variable density = exp(square(x) * -0.5) * 0.39894228040143267794;
  return distribution + x * density;
}

Variable gelu_tanh_derivative(const Variable& any) {
  constexpr double kFactor = 0.79788456080286535588, kCubic = 0.044715;  // the first is sqrt(2 / pi)
  const Variable x = wide(any), x2 = square(x);
  const Variable t = tanh(x * (x2 * (kFactor * kCubic) + kFactor));
  return (t + 1) * 0.5 + x * 0.5 * (1 - square(t)) * (x2 * (3 * kFactor * kCubic) + kFactor);
}

Variable relu_gradient(const Tensor& sign, const Variable& gy) {
  return apply_one<ConstantSlope<ops::Relu>>({}, {gy, sign});
}

}  // namespace binade::derivatives
