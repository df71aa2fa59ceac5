#include "binade/core/ops/fft.h"

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/extent2.h"
#include "binade/core/ops/move.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

/// Transforms x to y, whose shapes differ in the extent of `axis` and in the axis of complex parts.
void transform(const Tensor& x, Tensor& y, int axis, const Fft::Params& p) {
  if (y.numel() == 0) return;
  FftArgs a{.kind = p.kind, .inverse = p.inverse, .n = p.n, .scale = p.scale, .interior = p.interior};
  a.x_count = x.dim(axis);
  a.y_count = y.dim(axis);
  const int rank = y.rank() - (p.kind == FftKind::kToReal ? 0 : 1);  // without the axis of complex parts
  for (int d = 0; d < rank; ++d)
    if (d != axis) (d < axis ? a.outer : a.inner) *= y.dim(d);
  a.x = input(x);
  a.y = output(y);
  kernels(x.device()).fft(a);
}

Shape result_shape(const Shape& x, int axis, const Fft::Params& p) {
  std::vector<std::int64_t> dims(x.dims().begin(), x.dims().end());
  dims[static_cast<std::size_t>(axis)] = p.count;
  if (p.kind == FftKind::kFromReal) dims.push_back(2);
  if (p.kind == FftKind::kToReal) dims.pop_back();
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

Fft::Params Fft::Params::adjoint(std::int64_t extent) const {
  Params p = *this;
  p.kind = kind == FftKind::kFromReal ? FftKind::kToReal
           : kind == FftKind::kToReal ? FftKind::kFromReal
                                      : FftKind::kComplex;
  p.inverse = !inverse;
  p.count = extent;
  return p;
}

int Fft::checked(const Shape& x, DType dtype, const Params& p) {
  check<DTypeError>(is_floating(dtype), "{}: wanted x of a floating dtype, got {}", where(p.name), name_of(dtype));
  const bool complex = p.kind != FftKind::kFromReal;
  check<ShapeError>(!complex || (x.rank() >= 2 && x.dim(-1) == 2),
                    "{}: wanted complex numbers (…, n, 2), real and imaginary parts in the last axis, got {}",
                    where(p.name), x);
  check<ShapeError>(complex || (x.rank() >= 1 && x.rank() < Shape::kMaxRank),
                    "{}: wanted real numbers of rank 1 to {}, got {}", where(p.name), Shape::kMaxRank - 1, x);
  const int axis = checked_axis(p.name, p.axis, x.rank() - (complex ? 1 : 0));
  check<ArgumentError>(p.n >= 1 && p.n <= kMaxExtent && x[axis] <= kMaxExtent,
                       "{}: wanted a transform of 1 to 2^30 numbers, got {} for axis {} of {}", where(p.name), p.n,
                       p.axis, x);
  return axis;
}

Tensors Fft::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const Tensor x = in[0].contiguous_copy();
  const int axis = checked(x.shape(), x.dtype(), p);
  Tensor y = Tensor::empty(result_shape(x.shape(), axis, p), ctx.store_dtype, x.device());
  transform(x, y, axis, p);
  return {y};
}

void Fft::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gx.needs(0)) return;
  const OpContext::Input& x = ctx.inputs[0];
  const int axis = checked(x.shape, x.dtype, p);
  Tensor g = gx.destination(0);
  transform(gy[0], g, axis, p.adjoint(x.shape[axis]));
}

}  // namespace binade::ops
