#include "binade/core/ops/linalg_spectral.h"

#include <algorithm>

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/linalg_formulas.h"
#include "binade/core/ops/linalg_tensors.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

using A = TensorAlgebra;

/// Returns an identity matrix (width, width) for each matrix of a batch.
Tensor identities(const Tensor& a, std::int64_t width) {
  return A::add(A::eye(width, a), Tensor::zeros(batched(a, {width, width}), a.dtype(), a.device()));
}

void check_converged(const OpInfo& op, const Tensor& info) {
  check_info(op, info, info.shape(), "matrices for which the iteration converges", "for which it does not",
             "scale the matrix, so that its elements are near 1");
}

}  // namespace

Tensors Qr::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check_matrices(info, in[0]);
  const Tensor a = computed(in[0]);
  const std::int64_t rows = a.dim(-2), columns = a.dim(-1), width = p.complete ? rows : std::min(rows, columns);
  Tensor q = Tensor::empty(batched(a, {rows, width}), a.dtype(), a.device());
  Tensor r = Tensor::empty(batched(a, {width, columns}), a.dtype(), a.device());
  if (a.numel() > 0)
    kernels(a.device())
        .qr({.a = input(a),
             .q = output(q),
             .r = output(r),
             .batch = batch_of(a.shape()),
             .rows = rows,
             .columns = columns,
             .width = width});
  else if (q.numel() > 0)
    q = identities(a, width);
  ctx.save(q);
  ctx.save(r);
  return {q.to(ctx.store_dtype), r.to(ctx.store_dtype)};
}

void Qr::check_gradient(const Shape& a, const Params& p) {
  check<AutogradError>(!p.complete || a[-2] <= a[-1],
                       "{}: a complete q of {} has no gradient, because its last columns are not unique; use the "
                       "reduced q",
                       where(info.name), a);
}

void Qr::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gx.needs(0)) return;
  check_gradient(ctx.inputs[0].shape, p);
  const Tensor &q = ctx.saved(0, info.name), &r = ctx.saved(1, info.name);
  if (ctx.inputs[0].shape.numel() == 0)
    return put(ctx, gx, 0, Tensor::empty(ctx.inputs[0].shape, q.dtype(), q.device()));
  put(ctx, gx, 0, formulas::qr<A>(q, r, gradient_or_zeros(gy, 0, q), gradient_or_zeros(gy, 1, r)));
}

Tensors Eigh::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check_square(info, in[0]);
  const Tensor a = computed(in[0]);
  const bool vectors = p.vectors || ctx.grad_enabled;
  Tensor w = Tensor::empty(batched(a, {a.dim(-1)}), a.dtype(), a.device());
  Tensor v = vectors ? Tensor::empty(a.shape(), a.dtype(), a.device()) : Tensor();
  if (a.numel() > 0) {
    Tensor failed = Tensor::empty(batched(a, {}), DType::i64, a.device());
    kernels(a.device())
        .eigh({.a = input(a),
               .values = output(w),
               .vectors = vectors ? output(v) : Out{},
               .batch = batch_of(a.shape()),
               .n = a.dim(-1),
               .info = failed.mutable_data<std::int64_t>()});
    check_converged(info, failed);
  }
  ctx.save(w);
  if (!vectors) return {w.to(ctx.store_dtype)};
  ctx.save(v);
  return {w.to(ctx.store_dtype), v.to(ctx.store_dtype)};
}

void Eigh::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  const Tensor &w = ctx.saved(0, info.name), &v = ctx.saved(1, info.name);
  if (v.numel() == 0) return put(ctx, gx, 0, v);
  Tensor ga = formulas::eigenvalues<A>(v, gradient_or_zeros(gy, 0, w));
  if (gy[1].defined()) ga = A::add(ga, formulas::eigenvectors<A>(w, v, gradient_or_zeros(gy, 1, v)));
  put(ctx, gx, 0, ga);
}

Tensors Svd::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check_matrices(info, in[0]);
  const Tensor a = computed(in[0]);
  const std::int64_t rows = a.dim(-2), columns = a.dim(-1), k = std::min(rows, columns);
  const std::int64_t left = p.full ? rows : k, right = p.full ? columns : k;
  const bool vectors = p.vectors || ctx.grad_enabled;
  Tensor s = Tensor::empty(batched(a, {k}), a.dtype(), a.device()), u, vh;
  if (vectors) {
    u = Tensor::empty(batched(a, {rows, left}), a.dtype(), a.device());
    vh = Tensor::empty(batched(a, {right, columns}), a.dtype(), a.device());
  }
  if (a.numel() > 0) {
    Tensor failed = Tensor::empty(batched(a, {}), DType::i64, a.device());
    kernels(a.device())
        .svd({.a = input(a),
              .u = vectors ? output(u) : Out{},
              .s = output(s),
              .vh = vectors ? output(vh) : Out{},
              .batch = batch_of(a.shape()),
              .rows = rows,
              .columns = columns,
              .full = p.full,
              .info = failed.mutable_data<std::int64_t>()});
    check_converged(info, failed);
  } else if (vectors) {
    if (u.numel() > 0) u = identities(a, rows);
    if (vh.numel() > 0) vh = identities(a, columns);
  }
  ctx.save(s);
  if (!vectors) return {s.to(ctx.store_dtype)};
  ctx.save(u);
  ctx.save(vh);
  if (p.full && rows != columns) ctx.save(in[0]);  // for second derivatives of s
  return {s.to(ctx.store_dtype), u.to(ctx.store_dtype), vh.to(ctx.store_dtype)};
}

void Svd::check_gradient(const Shape& a, const Params& p) {
  check<AutogradError>(!p.full || a[-2] == a[-1],
                       "{}: u and vh with full_matrices of {} have no gradient, because not all of their vectors are "
                       "unique; pass full_matrices = false",
                       where(info.name), a);
}

void Svd::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gx.needs(0)) return;
  const Shape& shape = ctx.inputs[0].shape;
  if (gy[1].defined() || gy[2].defined()) check_gradient(shape, p);
  const Tensor& s = ctx.saved(0, info.name);
  if (shape.numel() == 0) return put(ctx, gx, 0, Tensor::empty(shape, s.dtype(), s.device()));
  const std::int64_t k = s.dim(-1);
  const Tensor u = A::narrow(ctx.saved(1, info.name), -1, 0, k), vh = A::narrow(ctx.saved(2, info.name), -2, 0, k);
  Tensor ga = formulas::singular_values<A>(u, vh, gradient_or_zeros(gy, 0, s));
  if (gy[1].defined() || gy[2].defined())
    ga = A::add(ga, formulas::singular_vectors<A>(u, s, vh, gradient_or_zeros(gy, 1, u), gradient_or_zeros(gy, 2, vh)));
  put(ctx, gx, 0, ga);
}

double Pinv::tolerance(const Shape& a, DType dtype, double rtol) {
  check<ArgumentError>(!(rtol != rtol), "{}: wanted a tolerance, got {}", where(info.name), rtol);
  return rtol >= 0 ? rtol : static_cast<double>(std::max(a[-1], a[-2])) * (dtype == DType::f64 ? 0x1p-52 : 0x1p-23);
}

Tensors Pinv::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check_matrices(info, in[0]);
  const Tensor a = computed(in[0]);
  Tensor y = Tensor::zeros(batched(a, {a.dim(-1), a.dim(-2)}), a.dtype(), a.device());
  if (a.numel() > 0) {
    OpContext inner;
    inner.store_dtype = a.dtype();
    const Tensors parts = Svd::forward(inner, std::span(&a, 1), {});
    const double rtol = tolerance(a.shape(), a.dtype(), p.rtol);
    std::vector<double> s = parts[0].to_vector<double>();
    const auto k = static_cast<std::size_t>(parts[0].dim(-1));
    for (std::size_t first = 0; first < s.size(); first += k) {
      const double limit = rtol * s[first];
      for (std::size_t i = first; i < first + k; ++i) s[i] = s[i] <= limit ? 0 : 1 / s[i];
    }
    const Tensor inverse = Tensor::from(s, parts[0].shape()).to(a.dtype()).to(a.device());
    y = A::matmul(A::mul(parts[2], A::column(inverse)), parts[1], true, true);
  }
  ctx.save(in[0]);
  ctx.save(y);
  return {y.to(ctx.store_dtype)};
}

void Pinv::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  const Tensor a = computed(ctx.saved(0, info.name)), &y = ctx.saved(1, info.name);
  put(ctx, gx, 0, a.numel() == 0 ? a : formulas::pinv<A>(a, y, gradient_or_zeros(gy, 0, y)));
}

}  // namespace binade::ops
