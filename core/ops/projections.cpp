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
    check<ArgumentError>(bias.defined() == biased, "{}: wanted a bias of each part, or none", where(kName));
    check_linear(kName, x, w, bias, fmt::format("w{}", i + 1), fmt::format("bias{}", i + 1));
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
  GemmArgs g = forward_product(ctx, x, weight.raw(), x.dim(-1), y);
  g.bias = bias ? bias->raw() : nullptr;
  g.low_bias = low_bias;
  kernels(x.device()).gemm(g);
  ctx.save(x);
  for (const Tensor& w : weights) ctx.save(w);
  return {y};
}

void Projections::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  const Tensor& x = ctx.saved(0, kName);
  const KernelTable& table = kernels(x.device());
  const Tensor gz = gy[0].to(x.dtype()).contiguous_copy();
  if (gx.needs(0)) {
    const Tensor weights[] = {ctx.saved(1, kName), ctx.saved(2, kName), ctx.saved(3, kName)};
    const Stacked weight(weights);
    Tensor to = gx.destination(0);
    table.gemm(input_gradient_product(ctx, gz, weight.raw(), x.dim(-1), to));
  }
  if (StackedGradient gw(ctx, gx, kFirstWeight, kParts); gw.needed()) {
    table.gemm(weight_gradient_product(ctx, gz, x, gw.dtype(), gw.raw()));
    gw.finish();
  }
  if (StackedGradient gb(ctx, gx, kFirstBias, kParts, accumulate_dtype(x.dtype())); gb.needed()) {
    table.column_sums({gz.raw(), gz.dtype(), gz.shape().rows(), gz.dim(-1), gz.dim(-1), gb.raw()});
    gb.finish();
  }
}

}  // namespace binade::ops
