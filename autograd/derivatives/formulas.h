#pragma once

#include <functional>
#include <vector>

#include "binade/autograd/derivative.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"

/// Formulas that several derivatives share. The elementwise ones compute in f32 (f64 for f64); grad() rounds the result
/// to the input's dtype.
namespace binade::derivatives {

/// Returns x in the dtype of sums: f32, or f64 for f64. An integer tensor becomes f32.
Variable wide(const Variable& x);
/// Returns t in the dtype in which sums of x are computed. Integer tensors are converted too.
Variable to_sum_dtype_of(const Variable& t, const Variable& x);

/// Returns x / divisor, rounded down, as i64, for whole numbers x in [0, 2^53). Unlike floor_divide(), it never reads
/// the divisor on the host, so that a captured step may contain it.
Variable quotient(const Variable& x, std::int64_t divisor);

std::vector<std::int64_t> dims_of(const Shape& shape);
/// Returns x, reshaped to `shape`.
Variable shaped(const Variable& x, const Shape& shape);

/// Returns g, summed over the dimensions in which a tensor of `shape` was repeated to give g's shape.
Variable sum_to(const Variable& g, const Shape& shape);

/// Returns matmul(a, b), stored in the dtype of its sums (f32 or f64). For gradients of parameters, and for gradients
/// that are summed further. The precision policy casts a and b as for matmul().
Variable wide_matmul(const Variable& a, const Variable& b, const ops::Matmul::Params& p = {});

/// Returns the gradients of `inputs` as recorded functions, given gy, the gradient of f(inputs). For an op whose result
/// can also be computed by functions of variables that have derivatives.
Variables by_composition(const Variables& inputs, const std::function<Variable(const Variables&)>& f,
                         const Variable& gy);

/// Returns the derivatives of gelu and gelu_tanh at x.
Variable gelu_derivative(const Variable& x);
Variable gelu_tanh_derivative(const Variable& x);

/// Returns gy where y = relu(x) is positive, and 0 elsewhere. `sign`: y or x.
Variable relu_gradient(const Tensor& sign, const Variable& gy);

}  // namespace binade::derivatives
