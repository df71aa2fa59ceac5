#include "binade/core/ops/linalg_factor.h"

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/linalg_formulas.h"
#include "binade/core/ops/linalg_tensors.h"
#include "binade/core/step_context.h"

namespace binade::ops {

Tensors Cholesky::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  check_square(info, in[0]);
  const Tensor a = computed(in[0]);
  Tensor l = Tensor::empty(a.shape(), a.dtype(), a.device());
  if (a.numel() > 0) {
    Tensor failed = Tensor::empty(batched(a, {}), DType::i64, a.device());
    kernels(a.device())
        .cholesky({.a = input(a),
                   .l = output(l),
                   .batch = batch_of(a.shape()),
                   .n = a.dim(-1),
                   .info = failed.mutable_data<std::int64_t>()});
    check_info(info, failed, failed.shape(), "positive definite matrices", "whose pivot {} is not positive",
               "add a small multiple of the identity, and see that the matrix is symmetric");
  }
  ctx.save(l);
  return {l.to(ctx.store_dtype)};
}

void Cholesky::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  const Tensor& l = ctx.saved(0, info.name);
  put(ctx, gx, 0, formulas::cholesky<TensorAlgebra>(l, gradient_or_zeros(gy, 0, l)));
}

Tensors Lu::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  check_matrices(info, in[0]);
  const LuFactors f = lu_factors(computed(in[0]));
  ctx.save(f.lu);
  if (ctx.grad_enabled) ctx.save(inverse_order(f.order));
  ctx.non_differentiable_outputs = 0b110;
  return {f.lu.to(ctx.store_dtype), f.pivots, f.order};
}

void Lu::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  const Tensor &lu = ctx.saved(0, info.name), &inverse = ctx.saved(1, info.name);
  put(ctx, gx, 0, formulas::lu<TensorAlgebra>(lu, inverse, gradient_or_zeros(gy, 0, lu)));
}

Tensors TriangularSolve::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check_square(info, in[0]);
  check_matrices(info, in[1]);
  const Tensor a = computed(in[0]), b = in[1].to(a.dtype()).contiguous_copy();
  check<ShapeError>(b.shape() == batched(a, {a.dim(-1), b.dim(-1)}),
                    "{}: wanted a (…, n, n) and b (…, n, m) with one batch, got {} and {}", where(info.name), a.shape(),
                    b.shape());
  Tensor x = Tensor::empty(b.shape(), b.dtype(), b.device());
  if (x.numel() > 0) {
    Tensor failed = p.checked ? Tensor::empty(batched(a, {}), DType::i64, a.device()) : Tensor();
    kernels(a.device())
        .triangular_solve({.a = input(a),
                           .b = input(b),
                           .x = output(x),
                           .batch = batch_of(a.shape()),
                           .n = a.dim(-1),
                           .columns = b.dim(-1),
                           .upper = p.upper,
                           .transpose = p.transpose,
                           .unit = p.unit,
                           .info = p.checked ? failed.mutable_data<std::int64_t>() : nullptr});
    if (p.checked)
      check_info(info, failed, failed.shape(), "triangles without a 0 on the diagonal", "with a 0 at position {}",
                 "add a small multiple of the identity");
  }
  ctx.save(in[0]);
  ctx.save(x);
  return {x.to(ctx.store_dtype)};
}

void TriangularSolve::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const Tensor &x = ctx.saved(1, info.name), a = computed(ctx.saved(0, info.name));
  const Tensor gb = TensorAlgebra::triangular(a, gradient_or_zeros(gy, 0, x), p.upper, !p.transpose, p.unit);
  if (gx.needs(0)) put(ctx, gx, 0, formulas::triangular_matrix<TensorAlgebra>(x, gb, p.upper, p.transpose, p.unit));
  if (gx.needs(1)) put(ctx, gx, 1, gb);
}

}  // namespace binade::ops
