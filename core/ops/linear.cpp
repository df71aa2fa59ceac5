#include "core/ops/linear.h"

#include "core/ops/products.h"
#include "core/step_context.h"

namespace binade::ops {
namespace {

constexpr const char* kName = "linear";

void check_inputs(std::span<const Tensor> in) {
  const Tensor &x = in[0], &w = in[1], &bias = in[2];
  check<ShapeError>(x.rank() >= 1 && w.rank() == 2 && x.dim(-1) == w.dim(1),
                    "{}: wanted x (..., in) and w (out, in), got {} and {}", where(kName), x.shape(), w.shape());
  check<DTypeError>(x.dtype() == w.dtype() && is_floating(x.dtype()),
                    "{}: wanted x and w of one floating dtype, got {} and {}; convert x with to(DType::f32)",
                    where(kName), name_of(x.dtype()), name_of(w.dtype()));
  if (!bias.defined()) return;
  check<ShapeError>(bias.shape() == Shape{w.dim(0)}, "{}: wanted bias ({}), got {}", where(kName), w.dim(0),
                    bias.shape());
  check<DTypeError>(
      is_floating(bias.dtype()) && (bias.dtype() == DType::f64) == (x.dtype() == DType::f64),
      "{}: wanted f64 in all of x, w and bias or in none of them, got a bias of {} and products of {}; convert x "
      "with to(DType::f32), or the module's parameters to f64",
      where(kName), name_of(bias.dtype()), name_of(x.dtype()));
}

/// Where a product's rows lie: every dimension but the last.
cpu::GemmArgs product(const OpContext& ctx, const Tensor& a, const Tensor& b, Tensor& c) {
  cpu::GemmArgs g;
  g.tf32 = ctx.tf32;
  g.in = a.dtype();
  g.out = c.dtype();
  g.a = a.raw();
  g.a_row = a.pitch();
  g.b = b.raw();
  g.b_row = b.pitch();
  g.c = c.mutable_raw();
  return g;
}

/// What `p` says of products that read `dtype`; null: nothing. Where the policy has them read more bits they keep them.
const Fp8Scaling* fp8_of(const Linear::Params& p, DType dtype) {
  return p.fp8 && dtype == DType::bf16 ? &*p.fp8 : nullptr;
}

}  // namespace

Tensors Linear::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check_inputs(in);
  const Fp8Scaling* fp8 = fp8_of(p, in[0].dtype());
  const Tensor x = fp8 != nullptr ? round_to_fp8(in[0], Fp8Operand::kX, *fp8) : in[0];
  const Tensor w = fp8 != nullptr ? round_to_fp8(in[1], Fp8Operand::kWeight, *fp8) : in[1];
  const std::int64_t outputs = w.dim(0);
  const Shape shape = x.shape().with_dim(-1, outputs);
  Tensor y = Tensor::empty(shape, ctx.store_dtype, x.device());
  const bool smooth = p.activation == Activation::kGelu || p.activation == Activation::kGeluTanh;
  Tensor z;
  if (smooth && ctx.grad_enabled) z = Tensor::empty(shape, ctx.store_dtype, x.device());
  Tensor bias;
  if (in[2].defined()) bias = in[2].to(accumulate_dtype(x.dtype()));

  cpu::GemmArgs g = product(ctx, x, w, y);
  g.m = shape.rows();
  g.n = outputs;
  g.k = w.dim(1);
  g.b_row = 1;
  g.b_col = w.pitch();
  g.c_row = outputs;
  g.bias = bias.defined() ? bias.raw() : nullptr;
  g.activation = p.activation;
  g.pre_activation = z.defined() ? z.mutable_raw() : nullptr;
  gemm_slot().on(x.device(), kName).gemm(g);

  ctx.save(x);
  ctx.save(w);
  if (smooth && ctx.grad_enabled) ctx.save(z);
  if (p.activation == Activation::kRelu) ctx.save(y);
  return {y};
}

void Linear::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const Tensor& x = ctx.saved(0, kName);
  const Tensor& w = ctx.saved(1, kName);
  const cpu::GemmKernels& kernels = gemm_slot().on(x.device(), kName);
  Tensor gz = gy[0].to(x.dtype()).contiguous_copy();
  if (p.activation != Activation::kNone) {
    const Tensor z = ctx.saved(2, kName).to(x.dtype());
    const Tensor g = gz;
    gz = Tensor::empty(g.shape(), g.dtype(), g.device());
    kernels.activation_backward(p.activation, g.dtype(), z.raw(), g.raw(), gz.mutable_raw(), g.numel());
  }
  const std::int64_t inputs = w.dim(1), outputs = w.dim(0);
  const Fp8Scaling* fp8 = fp8_of(p, x.dtype());
  const Tensor factor = fp8 != nullptr && (gx.needs(0) || gx.needs(1)) ? round_to_fp8(gz, Fp8Operand::kGradient, *fp8)
                                                                       : gz;
  if (gx.needs(0)) {
    Tensor to = gx.destination(0);
    cpu::GemmArgs g = product(ctx, factor, w, to);
    g.m = x.shape().rows();  // not gz's: without outputs gz is empty, and the gradient of x is zeros
    g.n = inputs;
    g.k = outputs;
    g.a_row = outputs;
    g.c_row = inputs;
    kernels.gemm(g);
  }
  if (gx.needs(1)) {
    Tensor to = gx.destination(1);
    cpu::GemmArgs g = product(ctx, factor, x, to);
    g.m = outputs;
    g.n = inputs;
    g.k = gz.shape().rows();
    g.a_row = 1;
    g.a_col = outputs;
    g.c_row = inputs;
    kernels.gemm(g);
  }
  bias_gradient(info, gz, gx, 2);
}

}  // namespace binade::ops
