#include "binade/core/ops/dropout.h"

#include <cmath>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/softmax.h"
#include "binade/core/ops/elementwise.h"
#include "binade/core/parallel.h"

namespace binade::ops {
namespace {

/// Blocks of 16384 elements whatever the pitch, as word i belongs to element i.
void apply(const Tensor& x, Tensor& y, const RandomStream& stream, std::uint32_t drop, double scale) {
  const Tensor source = x.contiguous_copy();
  const cpu::In from{source.raw(), source.dtype()};
  const cpu::Out to{y.mutable_raw(), y.dtype()};
  parallel_for(y.numel(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    cpu::kernels().pointwise.rows->dropout(from.at(begin), to.at(begin), end - begin, stream, begin, drop, scale);
  });
}

void run(const Tensor& x, Tensor& y, const OpContext& ctx, double p) {
  const std::uint32_t drop = static_cast<std::uint32_t>(std::lround(p * 0x1p24));
  Dropout::kernels.on(x.device(), Dropout::info.name).apply(x, y, ctx.rng, drop, p < 1 ? 1 / (1 - p) : 1);
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

void register_dropout_cpu() { Dropout::kernels.fill(DeviceType::kCpu, {&apply}); }

}  // namespace binade::ops
