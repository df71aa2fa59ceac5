#include "binade/core/ops/linear.h"

#include "binade/core/ops/input_gradient.h"
#include "binade/core/ops/products.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

constexpr const char* kName = "linear";

/// Describes c (m, n) = a (m, k) b (n, k)^T, where a and b are 8-bit codes. `a_operand` determines the format of a.
GemmArgs product_of_codes(const Tensor& a, const Tensor& a_scale, Fp8Operand a_operand, const Tensor& b,
                          const Tensor& b_scale, Tensor& c) {
  GemmArgs g{.m = a.dim(0), .n = b.dim(0), .k = a.dim(1), .in = DType::u8, .out = c.dtype()};
  g.a = a.raw();
  g.a_row = g.k;
  g.b = b.raw();
  g.b_row = 1;
  g.b_col = g.k;
  g.c = c.mutable_raw();
  g.c_row = g.n;
  g.a_format = format_of(a_operand);
  g.a_scale = a_scale.data<float>();
  g.b_scale = b_scale.data<float>();
  return g;
}

/// Returns x rounded to 8-bit values if `fp8` is not null, otherwise x. For products that do not multiply 8-bit codes.
Tensor rounded(const Tensor& x, Fp8Operand operand, const Fp8Scaling* fp8) {
  return fp8 != nullptr ? round_to_fp8(x, operand, *fp8) : x;
}

/// Returns the 8-bit scaling for products that read `dtype`, or null if their operands are not rounded to 8 bits,
/// because the layer has no fp8 or `dtype` is not bf16.
const Fp8Scaling* fp8_of(const Linear::Params& p, DType dtype) {
  return p.fp8 && dtype == DType::bf16 ? &*p.fp8 : nullptr;
}

/// Returns the activation derivative of the layer that produced x, if the product that computes gx can multiply by it;
/// otherwise Activation::kNone.
GradSink::ActivationDerivative derivative_in_product(const GradSink& gx, const KernelTable& table, DType dtype) {
  const GradSink::ActivationDerivative derivative = gx.activation_derivative(0);
  const bool supported = table.derivative_in_product == nullptr ||
                         table.derivative_in_product(derivative.activation, dtype);
  return supported ? derivative : GradSink::ActivationDerivative{};
}

/// Returns x, recomputed if forward did not save it.
Tensor saved_x(const OpContext& ctx) {
  const Tensor& kept = ctx.saved(0, kName);
  const Activation activation = ctx.recomputed_by(0);
  if (activation == Activation::kNone) return kept;
  Tensor x = Tensor::empty(kept.shape(), kept.dtype(), kept.device());
  kernels(kept.device()).activate({activation, kept.dtype(), kept.raw(), x.mutable_raw(), kept.numel()});
  return x;
}

/// Computes gx = gz w and gw = gz^T x from the saved x and w.
void products(const OpContext& ctx, const Tensor& gz, GradSink& gx, const Linear::Params& p) {
  if (!gx.needs(0) && !gx.needs(1)) return;
  const Tensor& kept = ctx.saved(0, kName);  // has x's shape and dtype
  const Tensor& w = ctx.saved(1, kName);
  const KernelTable& table = kernels(w.device());
  const Fp8Scaling* fp8 = fp8_of(p, kept.dtype());
  const Tensor factor = rounded(gz, Fp8Operand::kGradient, fp8);
  if (gx.needs(1)) {  // first, so that a recomputed x is freed before gx is allocated
    const Tensor x = saved_x(ctx);
    auto [to, adds] = gradient_of_product(ctx, gx, 1);
    GemmArgs g = weight_gradient_product(ctx, factor, x, to.dtype(), to.mutable_raw());
    g.accumulate = adds;
    table.gemm(g);
  }
  if (gx.needs(0)) {
    const GradSink::ActivationDerivative derivative = fp8 == nullptr ? derivative_in_product(gx, table, kept.dtype())
                                                                     : GradSink::ActivationDerivative{};
    const bool multiplies = derivative.activation != Activation::kNone;
    auto [to, adds] = multiplies ? GradSink::Sum{gx.destination_with_derivative(0)} : gradient_of_product(ctx, gx, 0);
    GemmArgs g = input_gradient_product(ctx, factor, w.raw(), w.pitch(), to);
    g.derivative_of = derivative.activation;
    g.derivative_at = multiplies ? derivative.z.raw() : nullptr;
    g.accumulate = adds;
    table.gemm(g);
  }
}

/// Like products(), if forward multiplied 8-bit codes. The saved tensors are then the codes of x and w, both
/// transposed, and as the last two their scales.
void products_of_codes(const OpContext& ctx, const Tensor& gz, GradSink& gx, const Linear::Params& p) {
  if (!gx.needs(0) && !gx.needs(1)) return;
  const int scales = p.activation == Activation::kNone ? 2 : 3;
  const Fp8Codes g = encode_to_fp8(gz, Fp8Operand::kGradient, *p.fp8, gx.needs(0), gx.needs(1));
  const KernelTable& table = kernels(gz.device());
  if (gx.needs(0)) {
    Tensor to = gx.destination(0);
    table.gemm(product_of_codes(g.rows, g.scale, Fp8Operand::kGradient, ctx.saved(1, kName),
                                ctx.saved(scales + 1, kName), to));
  }
  if (gx.needs(1)) {
    auto [to, adds] = gradient_of_product(ctx, gx, 1);
    GemmArgs product = product_of_codes(g.columns, g.scale, Fp8Operand::kGradient, ctx.saved(0, kName),
                                        ctx.saved(scales, kName), to);
    product.accumulate = adds;
    table.gemm(product);
  }
}

}  // namespace

Tensors Linear::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check_linear(kName, in[0], in[1], in[2]);
  const Shape shape = in[0].shape().with_dim(-1, in[1].dim(0));
  const Device device = in[0].device();
  const Fp8Scaling* fp8 = fp8_of(p, in[0].dtype());
  const bool coded = fp8 != nullptr && multiplies_fp8_codes(device, shape.rows(), in[1].dim(1), in[1].dim(0));
  Tensor y = Tensor::empty(shape, ctx.store_dtype, device);
  const bool smooth = p.activation == Activation::kGelu || p.activation == Activation::kGeluTanh;
  Tensor z;
  if (smooth && ctx.grad_enabled) z = Tensor::empty(shape, ctx.store_dtype, device);
  const bool low_bias = takes_low_bias(in[2], ctx.store_dtype);
  Tensor bias;
  if (in[2].defined()) bias = low_bias ? in[2] : in[2].to(accumulate_dtype(in[0].dtype()));

  const auto multiply = [&](GemmArgs g) {
    g.bias = bias.defined() ? bias.raw() : nullptr;
    g.low_bias = low_bias;
    g.activation = p.activation;
    g.pre_activation = z.defined() ? z.mutable_raw() : nullptr;
    kernels(device).gemm(g);
  };
  const auto save_results = [&] {
    if (p.activation == Activation::kNone) return;
    const int at = ctx.save(z.defined() ? z : y);
    if (ctx.store_dtype != in[0].dtype()) return;
    const bool recomputable = z.defined() && static_cast<bool>(kernels(device).activate);
    ctx.activation_derivative = {p.activation, at, recomputable};
  };
  if (coded) {
    const Fp8Codes x = encode_to_fp8(in[0], Fp8Operand::kX, *fp8, true, ctx.grad_enabled);
    const Fp8Codes w = encode_to_fp8(in[1], Fp8Operand::kWeight, *fp8, true, ctx.grad_enabled);
    multiply(product_of_codes(x.rows, x.scale, Fp8Operand::kX, w.rows, w.scale, y));
    if (!ctx.grad_enabled) return {y};
    ctx.save(x.columns);
    ctx.save(w.columns);
    save_results();
    ctx.save(x.scale);
    ctx.save(w.scale);
    return {y};
  }
  const Tensor x = rounded(in[0], Fp8Operand::kX, fp8), w = rounded(in[1], Fp8Operand::kWeight, fp8);
  multiply(forward_product(ctx, x, w.raw(), w.pitch(), y));
  fp8 == nullptr ? ctx.save_input(0, x) : ctx.save(x);  // with fp8, x was rounded to 8 bits and is not the input itself
  ctx.save(w);
  save_results();
  return {y};
}

void Linear::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const Tensor& x = ctx.saved(0, kName);
  const bool coded = x.dtype() == DType::u8;
  const DType dtype = coded ? DType::bf16 : x.dtype();
  Tensor gz = gy[0].to(dtype).contiguous_copy();
  const bool multiplies = p.activation != Activation::kNone && !gx.derivative_applied();
  if (multiplies) {
    const Tensor z = ctx.saved(2, kName).to(dtype);
    const Tensor g = gz;
    gz = Tensor::empty(g.shape(), g.dtype(), g.device());
    InputGradient gb(gx, 2, accumulate_dtype(dtype));
    kernels(x.device())
        .activation_backward(
            {p.activation, dtype, z.raw(), g.raw(), gz.mutable_raw(), g.shape().rows(), g.shape().cols(), gb.raw()});
    gb.finish();
  }
  if (coded) {
    products_of_codes(ctx, gz, gx, p);
  } else {
    products(ctx, gz, gx, p);
  }
  if (!multiplies) bias_gradient(gz, gx, 2);
}

}  // namespace binade::ops
