#include "binade/autograd/apply.h"
#include "binade/autograd/collecting_sink.h"
#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/functions/conv.h"
#include "binade/core/ops/conv2d.h"
#include "binade/core/ops/conv_transpose2d.h"
#include "binade/core/ops/slice.h"

namespace binade::derivatives {
namespace {

/// Returns x, cropped to the height and width of `shape`. x is larger if an output padding is not smaller than the
/// stride.
Variable cut(const Variable& x, const Shape& shape) {
  Variable y = x;
  for (int d = 1; d <= 2; ++d)
    if (y.dim(d) != shape[d]) y = narrow(y, d, 0, shape[d]);
  return y;
}

/// The gradient of a convolution's input, which has the shape `x`: the transposed convolution of gy with filters w.
Variable input_gradient(const Variable& gy, const Variable& w, const Shape& x, const ops::Conv2d::Params& p) {
  const auto left = [](std::int64_t image, std::int64_t filter, std::int64_t padding, std::int64_t dilation,
                       std::int64_t stride) { return (image + 2 * padding - dilation * (filter - 1) - 1) % stride; };
  const Extent2 unread(left(x[1], w.dim(1), p.padding.y, p.dilation.y, p.stride.y),
                       left(x[2], w.dim(2), p.padding.x, p.dilation.x, p.stride.x));
  return conv_transpose2d(
      gy, w, {},
      {.stride = p.stride, .padding = p.padding, .output_padding = unread, .dilation = p.dilation, .groups = p.groups});
}

/// The gradient of a convolution's filters, as a function of its input x and of gy. It is stored in the dtype of its
/// sums, f32 or f64.
struct FilterGradient {
  struct Params {
    ops::Conv2d::Params convolution{};
    Shape filters{};
  };
  static constexpr OpInfo info{.name = "filter_gradient",
                               .inputs = "x, gy",
                               .precision = PrecisionClass::kLow,
                               .family = OpFamily::kProduct,
                               .observed = Observed::kByKernels,
                               .slices = true};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
    ctx.save(in[0]);
    ctx.save(in[1]);
    return {gradient(in[0], {}, in[1], 1, ctx.tf32, p)};
  }
  /// `gy` is ggw, the gradient of the filter gradient. The gradient of input x is the input gradient of a convolution
  /// with filters ggw; the gradient of input gy is the convolution of x with ggw.
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    const Tensor &x = ctx.saved(0, info.name), &result = ctx.saved(1, info.name);
    const Tensor filters = gy[0].to(x.dtype()).contiguous_copy();
    if (gx.needs(0)) gx.set(0, gradient(x, filters, result, 0, ctx.tf32, p).to(ctx.inputs[0].grad_dtype));
    if (!gx.needs(1)) return;
    OpContext call;
    call.store_dtype = x.dtype();
    call.tf32 = ctx.tf32;
    const Tensor in[] = {x, filters, Tensor()};
    Tensor y = ops::Conv2d::forward(call, in, p.convolution).front();
    for (int d = 1; d <= 2; ++d)
      if (const std::int64_t extent = result.dim(d); y.dim(d) != extent)
        y = ops::Slice::forward(call, std::span(&y, 1), {.axis = d, .begin = 0, .count = extent}).front();
    gx.set(1, y.to(ctx.inputs[1].grad_dtype));
  }
  static Variables derivative(const RecordedCall& call) {
    const Variable x = call.input(0, 0), gy = call.input(1, 1), &filters = call.gy();
    const ops::Conv2d::Params& p = call.params<FilterGradient>().convolution;
    Variables g(2);
    if (call.needs(0)) g[0] = input_gradient(gy, filters, x.shape(), p);
    if (call.needs(1)) g[1] = cut(conv2d(x, filters, {}, p), gy.shape());
    return g;
  }

 private:
  /// Returns the gradient of input `i` of the convolution of x with `filters`, which may be undefined for i = 1.
  static Tensor gradient(const Tensor& x, const Tensor& filters, const Tensor& gy, int i, bool tf32, const Params& p) {
    OpContext call;
    call.grad_enabled = true;
    call.tf32 = tf32;
    const auto describe = [&](const Shape& shape, DType dtype) {
      call.inputs.push_back({.shape = shape, .dtype = x.dtype(), .grad_dtype = dtype, .device = x.device()});
    };
    describe(x.shape(), x.dtype());
    describe(p.filters, accumulate_dtype(x.dtype()));
    call.save(x);
    call.save(filters);
    CollectingSink sink(call, {i == 0, i == 1});
    ops::Conv2d::backward(call, std::span(&gy, 1), sink, p.convolution);
    return sink.gradients()[static_cast<std::size_t>(i)];
  }
};

Variable filter_gradient(const Variable& x, const Variable& gy, const Shape& filters, const ops::Conv2d::Params& p) {
  return apply_one<FilterGradient>({p, filters}, {x, gy});
}

Variable bias_gradient(const Variable& gy) { return sum(gy, {0, 1, 2}); }

Variables conv_gradients(const RecordedCall& call) {
  const auto& p = call.params<ops::Conv2d>();
  const Variable& gy = call.gy();
  Variables g(3);
  if (call.needs(0)) g[0] = input_gradient(gy, call.input(1, 1), call.described(0).shape, p);
  if (call.needs(1)) g[1] = filter_gradient(call.input(0, 0), gy, call.described(1).shape, p);
  if (call.needs(2)) g[2] = bias_gradient(gy);
  return g;
}

Variables conv_transpose_gradients(const RecordedCall& call) {
  const auto& p = call.params<ops::ConvTranspose2d>();
  const ops::Conv2d::Params conv{.stride = p.stride, .padding = p.padding, .dilation = p.dilation, .groups = p.groups};
  const Variable& gy = call.gy();
  Variables g(3);
  if (call.needs(0)) g[0] = cut(conv2d(gy, call.input(1, 1), {}, conv), call.described(0).shape);
  if (call.needs(1)) g[1] = filter_gradient(gy, call.input(0, 0), call.described(1).shape, conv);
  if (call.needs(2)) g[2] = bias_gradient(gy);
  return g;
}

constexpr Entry kEntries[] = {
    {&ops::Conv2d::info, conv_gradients},
    {&ops::ConvTranspose2d::info, conv_transpose_gradients},
};

}  // namespace

std::span<const Entry> derivatives_of_convolutions() { return kEntries; }

}  // namespace binade::derivatives
