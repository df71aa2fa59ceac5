#include "binade/core/ops/linalg_solve.h"

#include <algorithm>
#include <cmath>

#include "binade/core/ops/linalg_formulas.h"
#include "binade/core/ops/linalg_tensors.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

using A = TensorAlgebra;

void check_regular(const OpInfo& op, const LuFactors& f) {
  check_info(op, f.info, f.info.shape(), "matrices that are not singular", "whose pivot {} is 0",
             "add a small multiple of the identity, or use pinv() or lstsq()");
}

/// Returns eye(n) for each matrix of a batch.
Tensor identities(const Tensor& a) {
  return A::add(A::eye(a.dim(-1), a), Tensor::zeros(a.shape(), a.dtype(), a.device()));
}

/// The LU factors and the determinant of each matrix. If `regular`, pivots of 0 are replaced as described at Det.
struct Determinants {
  Tensor lu, det;
};
Determinants determinants_of(const Tensor& lu, const Tensor& parity, bool regular) {
  const std::int64_t n = lu.dim(-1);
  const double epsilon = lu.dtype() == DType::f64 ? 0x1p-53 : 0x1p-24;
  std::vector<double> factors = lu.to_vector<double>(), dets = parity.to_vector<double>();
  for (std::size_t b = 0; b < dets.size(); ++b) {
    const auto pivot = [&](std::int64_t i) -> double& {
      return factors[b * static_cast<std::size_t>(n * n) + static_cast<std::size_t>(i * (n + 1))];
    };
    double largest = 0;
    for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(pivot(i)));
    for (std::int64_t i = 0; i < n; ++i) {
      if (regular && pivot(i) == 0) pivot(i) = largest > 0 ? epsilon * largest : 0x1p-60;
      dets[b] *= pivot(i);
    }
  }
  const auto stored = [&](const std::vector<double>& values, const Shape& shape) {
    return Tensor::from(values, shape).to(lu.dtype()).to(lu.device());
  };
  return {regular ? stored(factors, lu.shape()) : lu, stored(dets, parity.shape())};
}

}  // namespace

Tensors Solve::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  check_square(info, in[0]);
  check_matrices(info, in[1]);
  const Tensor a = computed(in[0]), b = in[1].to(a.dtype()).contiguous_copy();
  check<ShapeError>(b.shape() == batched(a, {a.dim(-1), b.dim(-1)}),
                    "{}: wanted a (…, n, n) and b (…, n, m) with one batch, got {} and {}", where(info.name), a.shape(),
                    b.shape());
  const LuFactors f = lu_factors(a);
  check_regular(info, f);
  const Tensor x = lu_solve(f.lu, f.order, b, false);
  for (const Tensor& t : {in[0], x, f.lu, f.order}) ctx.save(t);
  return {x.to(ctx.store_dtype)};
}

void Solve::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  const Tensor& x = ctx.saved(1, info.name);
  const Tensor gb = lu_solve(ctx.saved(2, info.name), ctx.saved(3, info.name), gradient_or_zeros(gy, 0, x), true);
  if (gx.needs(0)) put(ctx, gx, 0, formulas::solved_matrix<A>(x, gb));
  if (gx.needs(1)) put(ctx, gx, 1, gb);
}

Tensors Inverse::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  check_square(info, in[0]);
  const Tensor a = computed(in[0]);
  const LuFactors f = lu_factors(a);
  check_regular(info, f);
  const Tensor y = a.numel() == 0 ? a : lu_solve(f.lu, f.order, identities(a), false);
  ctx.save(y);
  return {y.to(ctx.store_dtype)};
}

void Inverse::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  const Tensor& y = ctx.saved(0, info.name);
  put(ctx, gx, 0, formulas::inverse<A>(y, gradient_or_zeros(gy, 0, y)));
}

Tensors Det::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  check_square(info, in[0]);
  const LuFactors f = lu_factors(computed(in[0]));
  const Tensor y = determinants_of(f.lu, f.parity, false).det;
  for (const Tensor& t : {in[0], y, f.lu, f.order, f.parity}) ctx.save(t);
  return {y.to(ctx.store_dtype)};
}

void Det::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  const Tensor& factors = ctx.saved(2, info.name);
  if (factors.numel() == 0) return put(ctx, gx, 0, factors);
  const auto [lu, det] = determinants_of(factors, ctx.saved(4, info.name), true);
  const Tensor inverse = lu_solve(lu, ctx.saved(3, info.name), identities(lu), true);
  const Tensor g = A::mul(gradient_or_zeros(gy, 0, det), det);
  put(ctx, gx, 0, A::mul(inverse, g.reshape(batched(lu, {1, 1}))));
}

}  // namespace binade::ops
