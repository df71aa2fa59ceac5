#include "binade/core/ops/max_pool2d.h"

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

MaxPool describe(const Shape& x, DType dtype, const MaxPool2d::Params& p) {
  MaxPool a{.dtype = dtype, .images = x[0], .height = x[1], .width = x[2], .channels = x[3]};
  a.out_height = pooled_extent(MaxPool2d::info, "height", x[1], p.kernel.y, p.stride.y, p.padding.y);
  a.out_width = pooled_extent(MaxPool2d::info, "width", x[2], p.kernel.x, p.stride.x, p.padding.x);
  a.kernel_h = p.kernel.y;
  a.kernel_w = p.kernel.x;
  a.stride_h = p.stride.y;
  a.stride_w = p.stride.x;
  a.padding_h = p.padding.y;
  a.padding_w = p.padding.x;
  check<ShapeError>(p.kernel.y * p.kernel.x < std::int64_t{1} << 31,
                    "{}: wanted a kernel of less than 2^31 pixels, got {}", where(MaxPool2d::info.name), p.kernel);
  a.index_dtype = p.kernel.y * p.kernel.x <= 256 ? DType::u8 : DType::i32;
  return a;
}

}  // namespace

Tensors MaxPool2d::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check<ShapeError>(in[0].rank() == 4, "{}: wanted x of shape (N, H, W, C), got {}", where(info.name), in[0].shape());
  const Tensor x = in[0].to(ctx.store_dtype);
  MaxPool a = describe(x.shape(), x.dtype(), p);
  const Shape out{a.images, a.out_height, a.out_width, a.channels};
  Tensor y = Tensor::empty(out, x.dtype(), x.device());
  Tensor index;
  if (ctx.grad_enabled) {
    index = Tensor::empty(out, a.index_dtype, x.device());
    a.index = index.mutable_raw();
  }
  a.x = x.raw();
  a.x_pitch = x.pitch();
  a.y = y.mutable_raw();
  if (y.numel() > 0)
    kernels(x.device()).max_pool_forward(a);  // without channels the kernel could loop over 2^60 pixels
  ctx.save(index);
  return {y};
}

void MaxPool2d::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gx.needs(0)) return;
  const Tensor& index = ctx.saved(0, info.name);
  MaxPool a = describe(ctx.inputs[0].shape, gy[0].dtype(), p);
  GradientSum g(gx, 0, gy[0].dtype());
  a.index = const_cast<void*>(index.raw());
  a.gy = gy[0].raw();
  a.gy_pitch = gy[0].pitch();
  a.gx = g.raw();
  a.gx_pitch = g.tensor().pitch();
  a.accumulate = g.holds();
  if (gy[0].numel() > 0) kernels(gy[0].device()).max_pool_backward(a);
  g.finish();
}

}  // namespace binade::ops
