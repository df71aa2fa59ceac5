#include "binade/core/ops/row_norm.h"

#include <algorithm>

#include "binade/core/kernels/table.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

/// The rows are divided into this number of blocks; gw and gb are summed per block, then the blocks are added. The
/// number is large enough for many threads, and small enough to add the blocks quickly.
constexpr std::int64_t kBlocks = 64;

}  // namespace

Tensors RowNorm::forward(OpContext& ctx, std::span<const Tensor> in) const {
  const std::size_t first = add ? 2 : 1;
  check<ArgumentError>(eps >= 0, "{}: wanted eps >= 0, got {}", where(info.name), eps);
  check<ShapeError>(in[0].rank() >= 1, "{}: wanted rank 1 or more (…, C), got {}", where(info.name), in[0].shape());
  const Tensor x = in[0].to(ctx.store_dtype);
  const Shape& shape = x.shape();
  const DType statistics = accumulate_dtype(x.dtype());
  for (std::size_t i = first; i < in.size(); ++i)
    check_channel_parameter(info, i == first ? "weight" : "bias", in[i], shape.cols());
  const Tensor weight = parameter_as(in[first], statistics),
               bias = rms ? Tensor() : parameter_as(in[first + 1], statistics);

  RowNormForward a{.dtype = x.dtype(), .rows = shape.rows(), .cols = shape.cols(), .rms = rms, .eps = eps};
  a.x = x.raw();
  a.x_pitch = x.pitch();
  Tensor h = x, residual;
  if (add) {
    check<ShapeError>(in[1].shape() == shape, "{}: wanted x and residual of one shape, got {} and {}", where(info.name),
                      shape, in[1].shape());
    residual = in[1].to(ctx.store_dtype);
    h = Tensor::empty(shape, x.dtype(), x.device());
    a.residual = residual.raw();
    a.residual_pitch = residual.pitch();
    a.h = h.mutable_raw();
  }
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  Tensor mean, rstd;
  if (ctx.grad_enabled) {
    if (!rms) mean = Tensor::empty(Shape{a.rows}, statistics, x.device());
    rstd = Tensor::empty(Shape{a.rows}, statistics, x.device());
  }
  a.weight = raw_or_null(weight);
  a.bias = raw_or_null(bias);
  a.y = y.mutable_raw();
  a.mean = mean.defined() ? mean.mutable_raw() : nullptr;
  a.rstd = rstd.defined() ? rstd.mutable_raw() : nullptr;
  kernels(x.device()).row_norm_forward(a);

  ctx.save(h);
  ctx.save(mean);
  ctx.save(rstd);
  ctx.save(weight);
  if (add) return {h, y};
  return {y};
}

void RowNorm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx) const {
  const Tensor& h = ctx.saved(0, info.name);
  const Tensor& mean = ctx.saved(1, info.name);
  const Tensor& rstd = ctx.saved(2, info.name);
  const Tensor& weight = ctx.saved(3, info.name);
  const int first = add ? 2 : 1;
  const Tensor gh = add ? gy[0] : Tensor();
  Tensor gnorm = add ? gy[1] : gy[0];
  if (!gnorm.defined())
    gnorm = Tensor::zeros(h.shape(), h.dtype(), h.device());  // the loss depends on output h = x + residual only

  RowNormBackward a{.dtype = h.dtype(), .rows = h.shape().rows(), .cols = h.shape().cols(), .rms = rms};
  a.rows_per_block = std::max<std::int64_t>(1, (a.rows + kBlocks - 1) / kBlocks);
  a.h = h.raw();
  a.h_pitch = h.pitch();
  a.gy = gnorm.raw();
  a.gh = raw_or_null(gh);
  a.weight = raw_or_null(weight);
  a.mean = raw_or_null(mean);
  a.rstd = rstd.raw();

  Tensor gradient;
  const bool shared = add && gx.needs(0) && gx.needs(1);
  if (shared)
    gradient = Tensor::empty(
        h.shape(), h.dtype(),
        h.device());  // one tensor is passed as gradient of x and of residual, so it must not be the storage of either
  else if (gx.needs(0) || (add && gx.needs(1)))
    gradient = gx.destination(gx.needs(0) ? 0 : 1);
  const bool direct = gradient.defined() && gradient.dtype() == h.dtype();
  Tensor written = direct || !gradient.defined() ? gradient : Tensor::empty(h.shape(), h.dtype(), h.device());
  if (written.defined()) a.gx = written.mutable_raw();

  const DType statistics = rstd.dtype();
  InputGradient gw(gx, first, statistics), gb(gx, first + 1, statistics, !rms);
  Tensor partial;
  if (gw.needed() || gb.needed()) {
    partial = Tensor::empty(Shape{a.blocks(), 2, a.cols}, statistics, h.device());
    a.partial = partial.mutable_raw();
  }
  a.gw = gw.raw();
  a.gb = gb.raw();
  kernels(h.device()).row_norm_backward(a);
  gb.finish();
  gw.finish();
  if (gradient.defined() && !direct) gradient.copy_from(written);
  if (shared) {
    gx.set(0, gradient);
    gx.set(1, gradient);
  }
}

}  // namespace binade::ops
