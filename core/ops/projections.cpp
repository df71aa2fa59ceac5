#include "binade/core/ops/projections.h"

#include <algorithm>

#include "binade/core/ops/products.h"
#include "binade/core/ops/stacked.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

constexpr const char* kName = "projections";
constexpr int kFirstWeight = 1, kFirstBias = kFirstWeight + Projections::kParts;

void check_inputs(std::span<const Tensor> in) {
  const Tensor& x = in[0];
  const bool biased = in[kFirstBias].defined();
  for (int i = 0; i < Projections::kParts; ++i) {
    const Tensor& w = in[static_cast<std::size_t>(kFirstWeight + i)];
    const Tensor& bias = in[static_cast<std::size_t>(kFirstBias + i)];
    check<ShapeError>(x.rank() >= 1 && w.rank() == 2 && x.dim(-1) == w.dim(1),
                      "{}: wanted x (..., in) and w{} (out, in), got {} and {}", where(kName), i + 1, x.shape(),
                      w.shape());
    check<DTypeError>(x.dtype() == w.dtype() && is_floating(x.dtype()),
                      "{}: wanted x and w{} of one floating dtype, got {} and {}; convert x with to(DType::f32)",
                      where(kName), i + 1, name_of(x.dtype()), name_of(w.dtype()));
    check<ArgumentError>(bias.defined() == biased, "{}: wanted a bias of each part, or none", where(kName));
    if (!biased) continue;
    check<ShapeError>(bias.shape() == Shape{w.dim(0)}, "{}: wanted bias{} ({}), got {}", where(kName), i + 1, w.dim(0),
                      bias.shape());
    check<DTypeError>(is_floating(bias.dtype()) && (bias.dtype() == DType::f64) == (x.dtype() == DType::f64),
                      "{}: wanted f64 in all of x, w and bias or in none of them, got a bias of {} and products of {}; "
                      "convert x with to(DType::f32), or the module's parameters to f64",
                      where(kName), name_of(bias.dtype()), name_of(x.dtype()));
  }
}

}  // namespace

Tensors Projections::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  check_inputs(in);
  const Tensor& x = in[0];
  const std::span<const Tensor> weights = in.subspan(kFirstWeight, kParts);
  std::int64_t outputs = 0;
  for (const Tensor& w : weights) outputs += w.dim(0);
  const std::span<const Tensor> given = in.subspan(kFirstBias, kParts);
  const bool low_bias = std::ranges::all_of(given,
                                            [&](const Tensor& bias) { return takes_low_bias(bias, ctx.store_dtype); });
  Tensors biases;
  for (const Tensor& bias : given)
    if (bias.defined()) biases.push_back(low_bias ? bias : bias.to(accumulate_dtype(x.dtype())));
  const Stacked weight(weights);
  const std::optional<Stacked> bias = biases.empty() ? std::nullopt : std::optional<Stacked>(biases);

  Tensor y = Tensor::empty(x.shape().with_dim(-1, outputs), ctx.store_dtype, x.device());
  GemmArgs g{.m = y.shape().rows(), .n = outputs, .k = x.dim(-1), .in = x.dtype(), .out = y.dtype()};
  g.tf32 = ctx.tf32;
  g.a = x.raw();
  g.a_row = x.pitch();
  g.b = weight.raw();
  g.b_row = 1;
  g.b_col = g.k;
  g.bias = bias ? bias->raw() : nullptr;
  g.low_bias = low_bias;
  g.c = y.mutable_raw();
  g.c_row = outputs;
  kernels(x.device()).gemm(g);
  ctx.save(x);
  for (const Tensor& w : weights) ctx.save(w);
  return {y};
}

void Projections::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  const Tensor& x = ctx.saved(0, kName);
  const KernelTable& table = kernels(x.device());
  const Tensor gz = gy[0].to(x.dtype()).contiguous_copy();
  const std::int64_t inputs = x.dim(-1), outputs = gz.dim(-1);
  if (gx.needs(0)) {
    const Tensor weights[] = {ctx.saved(1, kName), ctx.saved(2, kName), ctx.saved(3, kName)};
    const Stacked weight(weights);
    Tensor to = gx.destination(0);
    // Rows are not gz's: without outputs gz is empty, and the gradient of x is zeros.
    GemmArgs g{.m = x.shape().rows(), .n = inputs, .k = outputs, .in = x.dtype(), .out = to.dtype()};
    g.tf32 = ctx.tf32;
    g.a = gz.raw();
    g.a_row = outputs;
    g.b = weight.raw();
    g.b_row = inputs;
    g.c = to.mutable_raw();
    g.c_row = inputs;
    table.gemm(g);
  }
  if (StackedGradient gw(ctx, gx, kFirstWeight, kParts); gw.wanted()) {
    GemmArgs g{.m = outputs, .n = inputs, .k = gz.shape().rows(), .in = x.dtype(), .out = gw.dtype()};
    g.tf32 = ctx.tf32;
    g.a = gz.raw();
    g.a_row = 1;
    g.a_col = outputs;
    g.b = x.raw();
    g.b_row = x.pitch();
    g.c = gw.raw();
    g.c_row = inputs;
    table.gemm(g);
    gw.finish();
  }
  if (StackedGradient gb(ctx, gx, kFirstBias, kParts, accumulate_dtype(x.dtype())); gb.wanted()) {
    table.column_sums({gz.raw(), gz.dtype(), gz.shape().rows(), outputs, outputs, gb.raw()});
    gb.finish();
  }
}

}  // namespace binade::ops
