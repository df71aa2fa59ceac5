#include "binade/nn/spectral_norm.h"

#include <limits>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/error.h"
#include "binade/core/precision.h"
#include "binade/nn/init.h"

namespace binade::nn::detail {
namespace {

constexpr int kMostIterations = 10000, kFirstIterations = 15;

/// Returns x with length 1.
Variable unit(const Variable& x, double eps) {
  return x / clamp(sqrt(sum(square(x))), eps, std::numeric_limits<double>::infinity());
}

/// One step of the power iteration for `w` (rows, columns), from and to u (rows, 1) and v (columns, 1).
void improve(const Variable& w, Variable& u, Variable& v, double eps) {
  v = unit(matmul(w, u, {.transpose_a = true}), eps);
  u = unit(matmul(w, v), eps);
}

/// Returns a random unit vector (n).
Tensor random_unit(std::int64_t n) {
  Parameter x(Tensor::empty({n}, DType::f32, Runtime::current_device()));
  init::normal(x);
  const NoGradGuard no_grad;
  return unit(x, std::numeric_limits<float>::min()).value();
}

}  // namespace

SpectralWeight::SpectralWeight(const Parameter& weight, const SpectralNormOptions& o) : original(weight), options_(o) {
  options_.axis = checked_weight_axis("SpectralNorm", weight, o.axis);
  check<ArgumentError>(o.iterations > 0 && o.iterations <= kMostIterations && o.eps > 0,
                       "SpectralNorm: wanted 1 to {} iterations and eps > 0, got {} and {}", kMostIterations,
                       o.iterations, o.eps);
  const NoGradGuard no_grad;
  const PolicyScope f32{PrecisionPolicy{}};
  const Variable w = matrix();
  Variable left = reshape(random_unit(w.dim(0)), {-1, 1}), right;
  for (int i = 0; i < kFirstIterations; ++i) improve(w, left, right, o.eps);
  u = Buffer(reshape(left, {-1}).value().clone());
  v = Buffer(reshape(right, {-1}).value().clone());
}

void SpectralWeight::visit(Visitor& visitor) {
  visitor("weight_orig", original);
  visitor("weight_u", u);
  visitor("weight_v", v);
}

Variable SpectralWeight::matrix() const {
  const Variable rows_first = options_.axis == 0 ? Variable(original) : movedim(original, {options_.axis}, {0});
  return reshape(rows_first, {rows_first.dim(0), -1});
}

Variable SpectralWeight::normalized(bool improves) {
  const PolicyScope f32{PrecisionPolicy{}};
  const Variable w = matrix();
  // Copies, because a later forward writes the buffers before the backward of this one reads them.
  Variable left = reshape(u.value().clone(), {-1, 1}), right = reshape(v.value().clone(), {-1, 1});
  const bool done = step_context().recomputing || (TransactionScope::active() && u.pending());
  if (improves && !done) {
    const NoGradGuard no_grad;
    for (int i = 0; i < options_.iterations; ++i) improve(w, left, right, options_.eps);
    u.writable().copy_from(reshape(left, {-1}).value());
    v.writable().copy_from(reshape(right, {-1}).value());
  }
  return original / sum(left * matmul(w, right));
}

}  // namespace binade::nn::detail
