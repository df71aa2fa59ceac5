#include "binade/autograd/functions/linalg.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/make.h"
#include "binade/autograd/functions/math.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/make.h"
#include "binade/core/ops/linalg_exp.h"
#include "binade/core/ops/linalg_factor.h"
#include "binade/core/ops/linalg_solve.h"
#include "binade/core/ops/linalg_spectral.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

int rank_of(const Variable& x) { return x.value().rank(); }

/// Makes the products of a function compute in f32 whatever the precision policy.
struct FullPrecisionScope : PolicyScope {
  FullPrecisionScope() : PolicyScope(PrecisionPolicy{}) {}
};

void check_floating(const char* function, const Variable& a) {
  check<DTypeError>(is_floating(a.dtype()), "{}: wanted a floating dtype, got {}", where(function), name_of(a.dtype()));
}
void check_matrices(const char* function, const Variable& a, const Variable& b) {
  check_floating(function, a);
  check<ShapeError>(rank_of(a) >= 2 && rank_of(b) >= 2, "{}: wanted matrices (…, m, n), got {} and {}", where(function),
                    a.shape(), b.shape());
}
void check_matrices(const char* function, const Variable& a) { check_matrices(function, a, a); }
void check_square(const char* function, const Variable& a) {
  check_floating(function, a);
  check<ShapeError>(rank_of(a) >= 2 && a.dim(-1) == a.dim(-2), "{}: wanted square matrices (…, n, n), got {}",
                    where(function), a.shape());
}

Shape batch_of(const Variable& a) { return Shape(a.shape().dims().first(static_cast<std::size_t>(rank_of(a) - 2))); }

/// Returns x with the extents before its last two expanded to `batch`.
Variable with_batch(const Variable& x, const Shape& batch) {
  std::vector<std::int64_t> dims(batch.dims().begin(), batch.dims().end());
  dims.push_back(x.dim(-2));
  dims.push_back(x.dim(-1));
  return x.shape() == Shape(std::span<const std::int64_t>(dims)) ? x : expand(x, dims);
}

/// Two operands with the same batch. A vector b becomes a matrix of one column; visible() removes that axis again.
struct System {
  Variable a{}, b{};
  bool vector = false;

  Variable visible(const Variable& x) const { return vector ? squeeze(x, -1) : x; }
};
System system_of(const char* function, const Variable& a, const Variable& given, bool may_be_vector) {
  Variable b = given;
  const bool many = rank_of(a) == rank_of(b) + 1 &&
                    std::ranges::equal(a.shape().dims().first(b.shape().dims().size()), b.shape().dims());
  const bool vector = may_be_vector && rank_of(a) >= 2 && (rank_of(b) == 1 || many);
  if (vector) b = unsqueeze(b, -1);
  check_matrices(function, a, b);
  check<ShapeError>(a.dim(-2) == b.dim(-2), "{}: wanted a (…, m, n) and b (…, m, k), got {} and {}", where(function),
                    a.shape(), given.shape());
  const Shape batch = broadcast(batch_of(a), batch_of(b), function);
  return {with_batch(a, batch), with_batch(b, batch), vector};
}

Variable triangular(const Variable& a, const Variable& b, bool upper, bool transpose, bool unit = false) {
  return apply_one<ops::TriangularSolve>({.upper = upper, .transpose = transpose, .unit = unit}, {a, b});
}

Variable eye_like(const Variable& a, std::int64_t rows, std::int64_t columns) {
  return eye(rows, columns, a.dtype(), a.device());
}

/// Throws DataError unless all matrices r (…, k, k) have a diagonal that is far from 0.
void check_full_rank(const Variable& r, std::int64_t largest_extent) {
  const Tensor values = diagonal(r.detach(), 0, -2, -1).value();
  const std::vector<double> pivots = values.to_vector<double>();
  const double eps = static_cast<double>(largest_extent) * (values.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23);
  const auto k = static_cast<std::size_t>(values.dim(-1));
  for (std::size_t first = 0; k > 0 && first < pivots.size(); first += k) {
    double largest = 0;
    for (std::size_t i = first; i < first + k; ++i) largest = std::max(largest, std::abs(pivots[i]));
    for (std::size_t i = first; i < first + k; ++i)
      check<DataError>(!(std::abs(pivots[i]) <= eps * largest),
                       "{}: wanted matrices of full rank, got one (number {} of the batch) whose column {} depends on "
                       "those before it; matmul(pinv(a), b) is a solution for it too",
                       where("lstsq"), first / k, i - first);
  }
}

}  // namespace

Variable cholesky(const Variable& a, bool upper) {
  const Variable l = apply_one<ops::Cholesky>({}, {a});
  return upper ? transpose(l) : l;
}

Variable cholesky_solve(const Variable& b, const Variable& l, bool upper) {
  check_square("cholesky_solve", l);
  const System s = system_of("cholesky_solve", l, b, false);
  return triangular(s.a, triangular(s.a, s.b, upper, upper), upper, !upper);
}

LuFactorResult lu_factor(const Variable& a) {
  const std::vector<Variable> parts = apply<ops::Lu>({}, {a});
  return {parts[0], parts[1], parts[2]};
}

LuResult lu(const Variable& a) {
  const auto [factors, pivots, order] = lu_factor(a);
  const std::int64_t m = a.dim(-2), n = a.dim(-1), k = std::min(m, n);
  const Variable rows = arange(std::int64_t{0}, m, std::int64_t{1}, DType::i64, a.device());
  return {transpose(cast(unsqueeze(order, -1) == rows, factors.dtype())),
          tril(narrow(factors, -1, 0, k), -1) + eye_like(factors, m, k), triu(narrow(factors, -2, 0, k))};
}

Variable det(const Variable& a) { return apply_one<ops::Det>({}, {a}); }

SlogdetResult slogdet(const Variable& a) {
  check_square("slogdet", a);
  const FullPrecisionScope scope;
  const auto [factors, pivots, order] = lu_factor(a);
  const Variable d = diagonal(factors, 0, -2, -1);
  const Variable exchanged = pivots != arange(std::int64_t{0}, a.dim(-1), std::int64_t{1}, DType::i64, a.device());
  const Variable parity = cast(1 - 2 * cast(exchanged, DType::i64), d.dtype());
  return {prod(sign(d.detach()) * parity, -1), sum(log(abs(d)), -1)};
}

Variable inverse(const Variable& a) { return apply_one<ops::Inverse>({}, {a}); }

Variable solve(const Variable& a, const Variable& b) {
  check_square("solve", a);
  const System s = system_of("solve", a, b, true);
  return s.visible(apply_one<ops::Solve>({}, {s.a, s.b}));
}

Variable triangular_solve(const Variable& a, const Variable& b, const TriangularOptions& options) {
  constexpr const char* kName = "triangular_solve";
  check_square(kName, a);
  if (options.left) {
    const System s = system_of(kName, a, b, false);
    return triangular(s.a, s.b, options.upper, options.transpose, options.unit);
  }
  check_matrices(kName, a, b);
  const System s = system_of(kName, a, transpose(b), false);
  return transpose(triangular(s.a, s.b, options.upper, !options.transpose, options.unit));
}

QrResult qr(const Variable& a, QrMode mode) {
  const std::vector<Variable> parts = apply<ops::Qr>({.complete = mode == QrMode::kComplete}, {a});
  return {parts[0], parts[1]};
}

EighResult eigh(const Variable& a) {
  const std::vector<Variable> parts = apply<ops::Eigh>({}, {a});
  return {parts[0], parts[1]};
}

Variable eigvalsh(const Variable& a) { return apply_one<ops::Eigh>({.vectors = false}, {a}); }

SvdResult svd(const Variable& a, bool full_matrices) {
  const std::vector<Variable> parts = apply<ops::Svd>({.full = full_matrices}, {a});
  return {parts[1], parts[0], parts[2]};
}

Variable svdvals(const Variable& a) { return apply_one<ops::Svd>({.vectors = false}, {a}); }

LstsqResult lstsq(const Variable& a, const Variable& b) {
  const FullPrecisionScope scope;
  const System s = system_of("lstsq", a, b, true);
  const std::int64_t m = s.a.dim(-2), n = s.a.dim(-1);
  Variable x;
  const auto [q, r] = qr(m >= n ? s.a : transpose(s.a));
  check_full_rank(r, std::max(m, n));
  if (m >= n)
    x = triangular(r, matmul(q, s.b, {.transpose_a = true}), true, false);
  else
    x = matmul(q, triangular(r, s.b, true, true));
  const Variable rest = sum(square(matmul(s.a, x) - s.b), -2);
  return {s.visible(x), s.vector ? squeeze(rest, -1) : rest};
}

Variable pinv(const Variable& a, std::optional<double> rtol) {
  check<ArgumentError>(!rtol || *rtol >= 0, "{}: wanted a tolerance of at least 0, got {}", where("pinv"),
                       rtol.value_or(0));
  return apply_one<ops::Pinv>({.rtol = rtol.value_or(-1)}, {a});
}

Variable matrix_rank(const Variable& a, std::optional<double> rtol) {
  check_matrices("matrix_rank", a);
  check<ArgumentError>(!rtol || *rtol >= 0, "{}: wanted a tolerance of at least 0, got {}", where("matrix_rank"),
                       rtol.value_or(0));
  const Variable s = svdvals(a.detach());
  if (s.value().numel() == 0) return sum(cast(s, DType::i64), -1);
  const double tolerance = ops::Pinv::tolerance(a.shape(), s.dtype(), rtol.value_or(-1));
  return sum(s > max(s, -1, true).values * tolerance, -1);
}

Variable matrix_power(const Variable& a, std::int64_t n) {
  check_square("matrix_power", a);
  const FullPrecisionScope scope;
  if (n < 0) {
    check<ArgumentError>(n > std::numeric_limits<std::int64_t>::min(), "{}: the exponent {} is too small",
                         where("matrix_power"), n);
    return matrix_power(inverse(a), -n);
  }
  Variable square = cast(a, accumulate_dtype(a.dtype())), product;
  if (n == 0) return with_batch(eye_like(square, a.dim(-1), a.dim(-1)), batch_of(a));
  for (; n > 0; n >>= 1) {
    if (n & 1) product = product.defined() ? matmul(product, square) : square;
    if (n > 1) square = matmul(square, square);
  }
  return product;
}

Variable matrix_exp(const Variable& a) { return apply_one<ops::MatrixExp>({}, {a}); }

Variable matrix_norm(const Variable& a, MatrixNorm which, bool keepdim) {
  check_matrices("matrix_norm", a);
  const FullPrecisionScope scope;
  const auto shown = [&](const Variable& y) { return keepdim ? unsqueeze(unsqueeze(y, -1), -1) : y; };
  switch (which) {
    case MatrixNorm::kFrobenius: break;
    case MatrixNorm::kNuclear: return shown(sum(svdvals(a), -1));
    case MatrixNorm::kTwo: return shown(max(svdvals(a), {-1}));
    case MatrixNorm::kMinusTwo: return shown(min(svdvals(a), {-1}));
    case MatrixNorm::kOne: return shown(max(sum(abs(a), -2), {-1}));
    case MatrixNorm::kMinusOne: return shown(min(sum(abs(a), -2), {-1}));
    case MatrixNorm::kInf: return shown(max(sum(abs(a), -1), {-1}));
    case MatrixNorm::kMinusInf: return shown(min(sum(abs(a), -1), {-1}));
  }
  return norm(a, 2, {-2, -1}, keepdim);
}

Variable vector_norm(const Variable& x, double p, Axes axes, bool keepdim) {
  return norm(x, p, std::move(axes), keepdim);
}

Variable cond(const Variable& a, MatrixNorm which) {
  check_matrices("cond", a);
  if (which == MatrixNorm::kTwo || which == MatrixNorm::kMinusTwo) {
    const Variable s = svdvals(a), most = max(s, {-1}), least = min(s, {-1});
    return which == MatrixNorm::kTwo ? most / least : least / most;
  }
  return matrix_norm(a, which) * matrix_norm(inverse(a), which);
}

}  // namespace binade
