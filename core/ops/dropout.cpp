#include "binade/core/ops/dropout.h"

#include <cmath>

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/elementwise.h"

namespace binade::ops {
namespace {

void run(const Tensor& any, Tensor& y, const OpContext& ctx, double p) {
  const Tensor x = any.contiguous_copy();
  kernels(x.device())
      .dropout({.x = input(x),
                .y = output(y),
                .count = y.numel(),
                .stream = ctx.rng,
                .drop = static_cast<std::uint32_t>(std::lround(p * 0x1p24)),
                .scale = p < 1 ? 1 / (1 - p) : 1});
}

}  // namespace

Tensors Dropout::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  detail::check_floating(info, in);
  check<ArgumentError>(p.p >= 0 && p.p <= 1, "{}: wanted 0 <= p <= 1, got {}", where(info.name), p.p);
  Tensor y = Tensor::empty(in[0].shape(), ctx.store_dtype, in[0].device());
  run(in[0], y, ctx, p.p);
  return {y};
}

void Dropout::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  if (!gx.needs(0)) return;
  Tensor destination = gx.destination(0);
  run(gy[0], destination, ctx, p.p);
}

}  // namespace binade::ops
