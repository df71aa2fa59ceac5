#include "binade/core/ops/max_pool2d.h"

#include <utility>

#include "binade/core/kernels/table.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {

std::int64_t pooled_extent(const OpInfo& info, const char* dimension, std::int64_t extent, std::int64_t kernel,
                           std::int64_t stride, std::int64_t padding) {
  check<ShapeError>(kernel >= 1 && stride >= 1 && padding >= 0 && padding <= kernel / 2 && kernel <= kMaxExtent &&
                        stride <= kMaxExtent && extent <= kMaxExtent,
                    "{}: wanted kernel and stride from 1 to 2^30 and 0 <= padding <= kernel / 2, got kernel {}, stride "
                    "{}, padding {} and {} {}",
                    where(info.name), kernel, stride, padding, dimension, extent);
  check<ShapeError>(extent + 2 * padding >= kernel,
                    "{}: wanted {} + 2 padding >= kernel {}, got {} {} and padding {}; use a smaller kernel",
                    where(info.name), dimension, kernel, dimension, extent, padding);
  return (extent + 2 * padding - kernel) / stride + 1;
}

namespace {

MaxPool describe(const OpInfo& info, const Shape& x, DType dtype, const MaxPool2d::Params& p) {
  MaxPool a{.dtype = dtype, .images = x[0], .height = x[1], .width = x[2], .channels = x[3]};
  a.out_height = pooled_extent(info, "height", x[1], p.kernel.y, p.stride.y, p.padding.y);
  a.out_width = pooled_extent(info, "width", x[2], p.kernel.x, p.stride.x, p.padding.x);
  a.kernel_h = p.kernel.y;
  a.kernel_w = p.kernel.x;
  a.stride_h = p.stride.y;
  a.stride_w = p.stride.x;
  a.padding_h = p.padding.y;
  a.padding_w = p.padding.x;
  check<ShapeError>(p.kernel.y * p.kernel.x < std::int64_t{1} << 31,
                    "{}: wanted a kernel of less than 2^31 pixels, got {}", where(info.name), p.kernel);
  a.index_dtype = p.kernel.y * p.kernel.x <= 256 ? DType::u8 : DType::i32;
  return a;
}

/// Returns the maxima of x and, if `with_index`, their positions in the windows.
std::pair<Tensor, Tensor> pool(const OpInfo& info, const OpContext& ctx, const Tensor& in, const MaxPool2d::Params& p,
                               bool with_index) {
  check<ShapeError>(in.rank() == 4, "{}: wanted x of shape (N, H, W, C), got {}", where(info.name), in.shape());
  const Tensor x = in.to(ctx.store_dtype);
  MaxPool a = describe(info, x.shape(), x.dtype(), p);
  const Shape out{a.images, a.out_height, a.out_width, a.channels};
  Tensor y = Tensor::empty(out, x.dtype(), x.device());
  Tensor index;
  if (with_index) {
    index = Tensor::empty(out, a.index_dtype, x.device());
    a.index = index.mutable_raw();
  }
  a.x = x.raw();
  a.x_pitch = x.pitch();
  a.y = y.mutable_raw();
  if (y.numel() > 0)
    kernels(x.device()).max_pool_forward(a);  // without channels the kernel could loop over 2^60 pixels
  return {y, index};
}

void pool_backward(const OpInfo& info, const OpContext& ctx, const Tensor& gy, GradSink& gx,
                   const MaxPool2d::Params& p) {
  if (!gx.needs(0)) return;
  const Tensor& index = ctx.saved(0, info.name);
  MaxPool a = describe(info, ctx.inputs[0].shape, gy.dtype(), p);
  GradientSum g(gx, 0, gy.dtype());
  a.index = const_cast<void*>(index.raw());
  a.gy = gy.raw();
  a.gy_pitch = gy.pitch();
  a.gx = g.raw();
  a.gx_pitch = g.tensor().pitch();
  a.accumulate = g.holds();
  if (gy.numel() > 0) kernels(gy.device()).max_pool_backward(a);
  g.finish();
}

}  // namespace

Tensors MaxPool2d::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const auto [y, index] = pool(info, ctx, in[0], p, ctx.grad_enabled);
  ctx.save(index);
  return {y};
}

Tensors MaxPool2dIndices::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const auto [y, index] = pool(info, ctx, in[0], p, true);
  ctx.save(index);
  ctx.non_differentiable_outputs = 0b10;
  return {y, index};
}

void MaxPool2d::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  pool_backward(info, ctx, gy[0], gx, p);
}
void MaxPool2dIndices::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (gy[0].defined()) pool_backward(info, ctx, gy[0], gx, p);
}

}  // namespace binade::ops
