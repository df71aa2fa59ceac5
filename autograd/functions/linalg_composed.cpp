#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/linalg.h"
#include "binade/autograd/functions/make.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/make.h"
#include "binade/core/ops/move.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"

// Functions of linalg.h that are composed of others.
namespace binade {
namespace {

int rank_of(const Variable& x) { return x.value().rank(); }
std::vector<std::int64_t> dims_of(const Variable& x) { return {x.shape().dims().begin(), x.shape().dims().end()}; }
Variable wide(const Variable& x) { return cast(x, is_floating(x.dtype()) ? accumulate_dtype(x.dtype()) : DType::f32); }

/// Makes the products of a function compute in f32 whatever the precision policy.
struct FullPrecisionScope : PolicyScope {
  FullPrecisionScope() : PolicyScope(PrecisionPolicy{}) {}
};

std::int64_t product(std::span<const std::int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

Variable pdist(const Variable& x, double p) {
  check<ShapeError>(rank_of(x) == 2, "{}: wanted rows (n, d), got {}", where("pdist"), x.shape());
  check<ArgumentError>(p >= 0, "{}: wanted p of at least 0, got {}", where("pdist"), p);
  const Tensor pairs = triu_indices(x.dim(0), x.dim(0), 1, x.device());
  const Variable rows = wide(x);
  return norm(index_select(rows, 0, pairs[0]) - index_select(rows, 0, pairs[1]), p, -1);
}

Variable renorm(const Variable& x, double p, int axis, double most) {
  constexpr const char* kName = "renorm";
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted a floating dtype, got {}", where(kName), name_of(x.dtype()));
  check<ShapeError>(rank_of(x) >= 2, "{}: wanted 2 or more axes, got {}", where(kName), x.shape());
  check<ArgumentError>(p > 0 && most >= 0, "{}: wanted p above 0 and a norm of at least 0, got {} and {}", where(kName),
                       p, most);
  const int kept = ops::checked_axis(kName, axis, rank_of(x));
  std::vector<int> others;
  for (int d = 0; d < rank_of(x); ++d)
    if (d != kept) others.push_back(d);
  const Variable size = norm(wide(x), p, Axes(others), true);
  const Variable one = Tensor::scalar(1, size.dtype(), size.device());
  return cast(x * where(size > most, most / (size + 1e-7), one), x.dtype());
}

Variable cholesky_inverse(const Variable& l, bool upper) {
  check<ShapeError>(rank_of(l) >= 2 && l.dim(-1) == l.dim(-2), "{}: wanted square matrices (…, n, n), got {}",
                    where("cholesky_inverse"), l.shape());
  const DType dtype = is_floating(l.dtype()) ? accumulate_dtype(l.dtype()) : DType::f32;
  return cholesky_solve(eye(l.dim(-1), -1, dtype, l.device()), l, upper);
}

Variable lu_solve(const LuFactorResult& factors, const Variable& b) {
  constexpr const char* kName = "lu_solve";
  const auto& [lu, pivots, order] = factors;
  check<ArgumentError>(lu.defined() && order.defined(), "{}: wanted the result of lu_factor(), got none", where(kName));
  check<ShapeError>(rank_of(lu) >= 2 && lu.dim(-1) == lu.dim(-2) && rank_of(b) >= 2 && lu.dim(-1) == b.dim(-2),
                    "{}: wanted factors (…, n, n) and b (…, n, k), got {} and {}", where(kName), lu.shape(), b.shape());
  std::vector<std::int64_t> dims = dims_of(b);
  const std::vector<std::int64_t> of_factors = dims_of(lu);
  const auto leading = [](const std::vector<std::int64_t>& d) {
    return Shape(std::span<const std::int64_t>(d).first(d.size() - 2));
  };
  const Shape batch = broadcast(leading(dims), leading(of_factors), kName);
  std::vector<std::int64_t> all(batch.dims().begin(), batch.dims().end());
  const std::size_t axes = all.size();
  all.insert(all.end(), dims.end() - 2, dims.end());
  Variable rows = unsqueeze(order, -1);  // (…, n, 1)
  while (static_cast<std::size_t>(rank_of(rows)) < axes + 2) rows = unsqueeze(rows, 0);
  const Variable ordered = take_along_dim(expand(b, all), rows, -2);
  return triangular_solve(lu, triangular_solve(lu, ordered, {.upper = false, .unit = true}));
}

Variable logdet(const Variable& a) {
  const auto [sign_of_det, magnitude] = slogdet(a);
  const Variable nan = Tensor::scalar(std::numeric_limits<double>::quiet_NaN(), magnitude.dtype(), magnitude.device());
  return where(sign_of_det < 0, nan, magnitude);
}

Variable tensorinv(const Variable& a, int split) {
  constexpr const char* kName = "tensorinv";
  check<ArgumentError>(split > 0 && split < rank_of(a), "{}: wanted a split of 1 to {} axes of {}, got {}",
                       where(kName), rank_of(a) - 1, a.shape(), split);
  const std::vector<std::int64_t> dims = dims_of(a);
  const auto before = std::span(dims).first(static_cast<std::size_t>(split)),
             after = std::span(dims).subspan(static_cast<std::size_t>(split));
  check<ShapeError>(product(before) == product(after),
                    "{}: wanted as many elements before axis {} as from there on, got {}", where(kName), split,
                    a.shape());
  std::vector<std::int64_t> shape(after.begin(), after.end());
  shape.insert(shape.end(), before.begin(), before.end());
  return reshape(inverse(reshape(a, {product(before), product(after)})), shape);
}

Variable tensorsolve(const Variable& a, const Variable& b, const std::vector<int>& axes) {
  constexpr const char* kName = "tensorsolve";
  std::vector<int> order, moved;
  for (const int axis : axes) moved.push_back(ops::checked_axis(kName, axis, rank_of(a)));
  for (int d = 0; d < rank_of(a); ++d)
    if (std::ranges::count(moved, d) == 0) order.push_back(d);
  order.insert(order.end(), moved.begin(), moved.end());
  check<ArgumentError>(static_cast<int>(order.size()) == rank_of(a), "{}: wanted different axes, got one twice",
                       where(kName));
  const Variable m = moved.empty() ? a : permute(a, order);
  const std::int64_t n = b.value().numel();
  const std::vector<std::int64_t> dims = dims_of(m);
  check<ShapeError>(rank_of(m) >= rank_of(b), "{}: wanted as many axes of a as of b or more, got {} and {}",
                    where(kName), a.shape(), b.shape());
  const auto of_x = std::span(dims).subspan(static_cast<std::size_t>(rank_of(b)));
  check<ShapeError>(std::ranges::equal(std::span(dims).first(static_cast<std::size_t>(rank_of(b))), dims_of(b)) &&
                        product(of_x) == n,
                    "{}: wanted a with the axes of b and as many elements in the others, got {} and {}", where(kName),
                    m.shape(), b.shape());
  return reshape(solve(reshape(m, {n, n}), reshape(b, {n})), {of_x.begin(), of_x.end()});
}

Variable householder_product(const Variable& a, const Variable& tau) {
  constexpr const char* kName = "householder_product";
  check<DTypeError>(is_floating(a.dtype()) && is_floating(tau.dtype()), "{}: wanted floating dtypes, got {} and {}",
                    where(kName), name_of(a.dtype()), name_of(tau.dtype()));
  check<ShapeError>(rank_of(a) >= 2 && rank_of(tau) == rank_of(a) - 1 && a.dim(-2) >= a.dim(-1) &&
                        a.dim(-1) >= tau.dim(-1) &&
                        std::ranges::equal(a.shape().dims().first(static_cast<std::size_t>(rank_of(a) - 2)),
                                           tau.shape().dims().first(static_cast<std::size_t>(rank_of(a) - 2))),
                    "{}: wanted a (…, m, n) and tau (…, k) with k <= n <= m, got {} and {}", where(kName), a.shape(),
                    tau.shape());
  const FullPrecisionScope scope;
  const std::int64_t m = a.dim(-2), n = a.dim(-1);
  const Variable unit = eye(m, n, accumulate_dtype(a.dtype()), a.device());
  const Variable reflectors = tril(wide(a), -1) + unit, scales = wide(tau);
  Variable q = expand(unit, dims_of(reflectors));
  for (std::int64_t i = tau.dim(-1) - 1; i >= 0; --i) {
    const Variable v = narrow(reflectors, -1, i, 1);  // (…, m, 1)
    q = q - v * unsqueeze(narrow(scales, -1, i, 1), -1) * matmul(v, q, {.transpose_a = true});
  }
  return q;
}

}  // namespace binade
