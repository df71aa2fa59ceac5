#include "binade/core/ops/dice.h"

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/element_losses.h"

namespace binade::ops {

Tensors Dice::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  detail::check_loss(info, in);
  check<ArgumentError>(p.smooth >= 0, "{}: wanted smooth >= 0, got {}", where(info.name), p.smooth);
  Tensor sums = Tensor::empty(Shape{3}, accumulate_dtype(in[0].dtype()), in[0].device());
  const Tensor x = in[0].contiguous_copy(), targets = in[1].contiguous_copy();
  kernels(x.device()).dice_sums({x.numel(), input(x), input(targets), output(sums)});
  Tensor loss = Tensor::empty(Shape{}, ctx.store_dtype, in[0].device());
  kernels(x.device()).dice_loss({input(sums), p.smooth, output(loss)});
  ctx.save(in[0]);
  ctx.save(in[1]);
  ctx.save(sums);
  return {loss};
}

void Dice::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const Tensor& sums = ctx.saved(2, info.name);
  for (int i = 0; i < 2; ++i) {
    if (!gx.needs(i)) continue;
    Tensor destination = gx.destination(i);
    const Tensor other = ctx.saved(1 - i, info.name).contiguous_copy();
    kernels(other.device())
        .dice_gradient({other.numel(), input(other), input(sums), input(gy[0]), p.smooth, output(destination)});
  }
}

}  // namespace binade::ops
