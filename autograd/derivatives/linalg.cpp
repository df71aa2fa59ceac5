#include <algorithm>
#include <cmath>
#include <limits>

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

/// A pivot or singular value counts as near 0 if it is at most this fraction of the largest one of its matrix.
constexpr double kRegular = 0x1p-10;

/// True if no matrix of a batch has a pivot near 0. `lu`: the factors of lu_factors().
bool have_large_pivots(const Tensor& lu) {
  const std::int64_t n = lu.dim(-1);
  const std::vector<double> factors = lu.to_vector<double>();
  for (std::size_t matrix = 0; matrix < factors.size(); matrix += static_cast<std::size_t>(n * n)) {
    double largest = 0, smallest = std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < n; ++i) {
      const double pivot = std::abs(factors[matrix + static_cast<std::size_t>(i * (n + 1))]);
      if (std::isnan(pivot)) return true;  // the gradient is NaN in any case
      largest = std::max(largest, pivot);
      smallest = std::min(smallest, pivot);
    }
    if (!(smallest > kRegular * largest)) return false;
  }
  return true;
}

/// Returns the cofactors of matrices (…, k, k) by their definition, as signed determinants of minors. For small k.
Variable cofactors_by_minors(const Variable& a) {
  const std::int64_t k = a.dim(-1);
  std::vector<std::int64_t> shape = dims_of(a.shape());
  if (k == 1) return Tensor::full(a.shape(), 1, a.dtype(), a.value().device());
  std::vector<std::int64_t> elements;  // positions in a matrix of the elements of all minors
  std::vector<double> signs;
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < k; ++j) {
      signs.push_back((i + j) % 2 == 0 ? 1 : -1);
      for (std::int64_t row = 0; row < k; ++row)
        for (std::int64_t col = 0; col < k; ++col)
          if (row != i && col != j) elements.push_back(row * k + col);
    }
  shape.resize(shape.size() - 2);
  const auto with = [&](std::initializer_list<std::int64_t> extents) {
    std::vector<std::int64_t> all = shape;
    all.insert(all.end(), extents);
    return all;
  };
  const Tensor index = Tensor::from(elements, Shape{std::ssize(elements)}).to(a.value().device());
  const Variable minors = reshape(index_select(reshape(a, with({k * k})), -1, index), with({k, k, k - 1, k - 1}));
  return apply_one<ops::Det>({}, {minors}) * Tensor::from(signs, {k, k}).to(a.dtype()).to(a.value().device());
}

/// Constants u and v (…, n, k) such that a + u v^T is regular. Their columns are the singular vectors of the singular
/// values near 0; those of v are multiplied by the largest singular value. k is the largest number of such values in a
/// matrix of the batch. A matrix with fewer has columns of 0.
struct Border {
  Tensor u, v;
};
Border border_of(const Tensor& a) {
  const NoGradGuard no_grad;
  const std::int64_t n = a.dim(-1);
  const std::vector<Variable> svd = apply<ops::Svd>({}, {Variable(a)});
  const auto s = svd[0].value().to_vector<double>(), u = svd[1].value().to_vector<double>(),
             vh = svd[2].value().to_vector<double>();
  const auto size = static_cast<std::size_t>(n), count = s.size() / size;
  const auto is_small = [&](std::size_t i) { return s[i] <= kRegular * s[i / size * size]; };
  std::size_t k = 0;
  for (std::size_t b = 0; b < count; ++b) {
    std::size_t small = 0;
    for (std::size_t i = 0; i < size; ++i) small += is_small(b * size + i) ? 1 : 0;
    k = std::max(k, small);
  }
  std::vector<double> left(count * size * k), right(left.size());
  for (std::size_t b = 0; b < count; ++b) {
    const double largest = s[b * size] > 0 ? s[b * size] : 1;
    std::size_t column = 0;
    for (std::size_t i = 0; i < size; ++i) {
      if (!is_small(b * size + i)) continue;
      for (std::size_t row = 0; row < size; ++row) {
        left[(b * size + row) * k + column] = u[(b * size + row) * size + i];
        right[(b * size + row) * k + column] = vh[(b * size + i) * size + row] * largest;
      }
      ++column;
    }
  }
  std::vector<std::int64_t> shape = dims_of(a.shape());
  shape.back() = static_cast<std::int64_t>(k);
  const auto stored = [&](const std::vector<double>& values) {
    return Tensor::from(values, Shape(shape)).to(a.dtype()).to(a.device());
  };
  return {stored(left), stored(right)};
}

/// Returns the cofactors of matrices if some of them are singular, or nearly so. m = a + u v^T is regular, and with the
/// small matrix k = 1 - v^T m^-1 u, det(a) = det(m) det(k) for all a. The derivatives of this product, of any order,
/// do not divide by a number near 0.
Variable cofactors(const RecordedCall& call, const Variable& a) {
  constexpr std::int64_t kMost = 64;  // the minors of a k x k matrix have k^4 elements
  const Border border = border_of(a.value());
  const Variable u = border.u, v = border.v;
  const std::int64_t small = u.dim(-1);
  if (small > kMost)
    call.refuse(
        fmt::format("its matrix has {} singular values near 0, and at most {} are supported; add a small "
                    "multiple of the identity",
                    small, kMost));
  const auto det = [](const Variable& x) { return A::column(A::column(apply_one<ops::Det>({}, {x}))); };
  // Small pivots alone do not make a matrix nearly singular.
  if (small == 0) return transpose(apply_one<ops::Inverse>({}, {a})) * det(a);
  if (small == a.dim(-1)) return cofactors_by_minors(a);
  const Variable m = a + A::matmul(u, v, false, true), inverse = apply_one<ops::Inverse>({}, {m});
  const Variable left = A::matmul(inverse, v, true), right = A::matmul(inverse, u);
  const Variable k = A::eye(small, a) - A::matmul(v, right, true);
  return det(m) *
         (transpose(inverse) * det(k) + A::matmul(A::matmul(left, cofactors_by_minors(k)), right, false, true));
}

Variables det_gradient(const RecordedCall& call) {
  const Variable a = wide(call.input(0, 0)), gy = A::column(A::column(wide(call.gy())));
  if (!have_large_pivots(call.saved(2))) return {gy * cofactors(call, a)};
  const Variable inverse = apply_one<ops::Inverse>({}, {a});
  return {transpose(inverse) * (gy * A::column(A::column(call.output(0, 1))))};
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

/// Calls the derivative f in full precision: a product under a 16-bit policy would round intermediate results of f.
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
