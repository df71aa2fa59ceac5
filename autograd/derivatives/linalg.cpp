#include "binade/autograd/apply.h"
#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/make.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/core/make.h"
#include "binade/core/ops/linalg_exp.h"
#include "binade/core/ops/linalg_factor.h"
#include "binade/core/ops/linalg_formulas.h"
#include "binade/core/ops/linalg_solve.h"
#include "binade/core/ops/linalg_spectral.h"

namespace binade::derivatives {
namespace {

/// The operations of linalg_formulas.h as recorded functions.
struct VariableAlgebra {
  using Value = Variable;
  static Variable matmul(const Variable& a, const Variable& b, bool transpose_a = false, bool transpose_b = false) {
    return binade::matmul(a, b, {.transpose_a = transpose_a, .transpose_b = transpose_b});
  }
  static Variable add(const Variable& a, const Variable& b) { return a + b; }
  static Variable sub(const Variable& a, const Variable& b) { return a - b; }
  static Variable mul(const Variable& a, const Variable& b) { return a * b; }
  static Variable div(const Variable& a, const Variable& b) { return a / b; }
  static Variable scaled(const Variable& x, double factor) { return x * factor; }
  static Variable transposed(const Variable& x) { return transpose(x); }
  static Variable tril(const Variable& x, std::int64_t k) { return binade::tril(x, k); }
  static Variable triu(const Variable& x, std::int64_t k) { return binade::triu(x, k); }
  static Variable triangular(const Variable& a, const Variable& b, bool upper, bool transpose, bool unit) {
    return apply_one<ops::TriangularSolve>({upper, transpose, unit, false}, {a, b});
  }
  static Variable narrow(const Variable& x, int axis, std::int64_t begin, std::int64_t count) {
    return binade::narrow(x, axis, begin, count);
  }
  static Variable concat(const Variable& a, const Variable& b, int axis) { return binade::concat({a, b}, axis); }
  static Variable rows(const Variable& x, const Tensor& order) {
    return gather(x, -2, expand(unsqueeze(order, -1), dims_of(x.shape())));
  }
  static Variable row(const Variable& x) { return unsqueeze(x, -2); }
  static Variable column(const Variable& x) { return unsqueeze(x, -1); }
  static Variable eye(std::int64_t n, const Variable& like) {
    return binade::eye(n, n, like.dtype(), like.value().device());
  }
  static Variable matrix_exp(const Variable& a) { return apply_one<ops::MatrixExp>({}, {a}); }
};
using A = VariableAlgebra;

/// Returns the gradient of output i in the dtype of `like`, or zeros of its shape if nothing depends on that output.
Variable gradient_of(const RecordedCall& call, int i, const Variable& like) {
  if (call.gy(i).defined()) return wide(call.gy(i));
  return Tensor::zeros(like.shape(), like.dtype(), like.value().device());
}

Variables cholesky_gradient(const RecordedCall& call) {
  const Variable l = call.output(0, 0);
  return {ops::formulas::cholesky<A>(l, wide(call.gy()))};
}

Variables lu_gradient(const RecordedCall& call) {
  return {ops::formulas::lu<A>(call.output(0, 0), call.saved(1), wide(call.gy()))};
}

Variables triangular_solve_gradients(const RecordedCall& call) {
  const auto& p = call.params<ops::TriangularSolve>();
  const Variable a = wide(call.input(0, 0)), x = call.output(0, 1);
  const Variable gb = A::triangular(a, wide(call.gy()), p.upper, !p.transpose, p.unit);
  if (!call.needs(0)) return {Variable(), gb};
  return {ops::formulas::triangular_matrix<A>(x, gb, p.upper, p.transpose, p.unit), gb};
}

Variables solve_gradients(const RecordedCall& call) {
  const Variable a = wide(call.input(0, 0)), x = call.output(0, 1);
  const Variable gb = apply_one<ops::Solve>({}, {transpose(a), wide(call.gy())});
  return {ops::formulas::solved_matrix<A>(x, gb), gb};
}

Variables inverse_gradient(const RecordedCall& call) {
  return {ops::formulas::inverse<A>(call.output(0, 0), wide(call.gy()))};
}

Variables det_gradient(const RecordedCall& call) {
  const Variable inverse = apply_one<ops::Inverse>({}, {wide(call.input(0, 0))});
  return {transpose(inverse) * A::column(A::column(wide(call.gy()) * call.output(0, 1)))};
}

Variables qr_gradient(const RecordedCall& call) {
  ops::Qr::check_gradient(call.described(0).shape, call.params<ops::Qr>());
  const Variable q = call.output(0, 0), r = call.output(1, 1);
  return {ops::formulas::qr<A>(q, r, gradient_of(call, 0, q), gradient_of(call, 1, r))};
}

Variables eigh_gradient(const RecordedCall& call) {
  const Variable w = call.output(0, 0), v = call.output(1, 1);
  const Variable ga = ops::formulas::eigenvalues<A>(v, gradient_of(call, 0, w));
  if (!call.gy(1).defined()) return {ga};
  return {ga + ops::formulas::eigenvectors<A>(w, v, wide(call.gy(1)))};
}

Variables svd_gradient(const RecordedCall& call) {
  const bool of_vectors = call.gy(1).defined() || call.gy(2).defined();
  if (of_vectors) ops::Svd::check_gradient(call.described(0).shape, call.params<ops::Svd>());
  const Variable s = call.output(0, 0);
  const Shape& shape = call.described(0).shape;
  Variable u, vh;
  if (call.params<ops::Svd>().full && shape[-1] != shape[-2]) {  // not all vectors of a full u and vh have a gradient
    const std::vector<Variable> thin = apply<ops::Svd>({}, {wide(call.input(0, 3))});
    u = thin[1];
    vh = thin[2];
  } else {
    u = call.output(1, 1);
    vh = call.output(2, 2);
  }
  const Variable ga = ops::formulas::singular_values<A>(u, vh, gradient_of(call, 0, s));
  if (!of_vectors) return {ga};
  return {ga + ops::formulas::singular_vectors<A>(u, s, vh, gradient_of(call, 1, u), gradient_of(call, 2, vh))};
}

Variables pinv_gradient(const RecordedCall& call) {
  return {ops::formulas::pinv<A>(wide(call.input(0, 0)), call.output(0, 1), wide(call.gy()))};
}

Variables matrix_exp_gradient(const RecordedCall& call) {
  return {ops::formulas::matrix_exp<A>(wide(call.input(0, 0)), wide(call.gy()))};
}

/// Calls the derivative f in full precision: a product under a 16-bit policy would round what f computes.
template <auto f>
Variables in_full(const RecordedCall& call) {
  const PolicyScope scope(PrecisionPolicy{});
  if (call.described(0).shape.numel() > 0) return f(call);
  return Variables(call.context().inputs.size());
}

constexpr Entry kEntries[] = {
    {&ops::Cholesky::info, in_full<cholesky_gradient>},
    {&ops::Lu::info, in_full<lu_gradient>},
    {&ops::TriangularSolve::info, in_full<triangular_solve_gradients>},
    {&ops::Solve::info, in_full<solve_gradients>},
    {&ops::Inverse::info, in_full<inverse_gradient>},
    {&ops::Det::info, in_full<det_gradient>},
    {&ops::Qr::info, in_full<qr_gradient>},
    {&ops::Eigh::info, in_full<eigh_gradient>},
    {&ops::Svd::info, in_full<svd_gradient>},
    {&ops::Pinv::info, in_full<pinv_gradient>},
    {&ops::MatrixExp::info, in_full<matrix_exp_gradient>},
};

}  // namespace

std::span<const Entry> derivatives_of_linear_algebra() { return kEntries; }

}  // namespace binade::derivatives
