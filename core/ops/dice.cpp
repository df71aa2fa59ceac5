#include "binade/core/ops/dice.h"

#include <algorithm>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/losses.h"
#include "binade/core/ops/element_losses.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/parallel.h"

namespace binade::ops {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

cpu::In in(const Tensor& t) { return {t.raw(), t.dtype()}; }
cpu::Out out(Tensor& t) { return {t.mutable_raw(), t.dtype()}; }

void three_sums(const Tensor& x_any, const Tensor& t_any, Tensor& sums) {
  const Tensor x = x_any.contiguous_copy(), t = t_any.contiguous_copy();
  const std::int64_t blocks = (x.numel() + kGrain - 1) / kGrain;
  Tensor partial = Tensor::empty(Shape{blocks, 3}, accumulate_dtype(x.dtype()));
  parallel_blocks(blocks, [&](std::int64_t block) {
    const std::int64_t begin = block * kGrain;
    cpu::kernels().pointwise.losses->dice(in(x).at(begin), in(t).at(begin), std::min(kGrain, x.numel() - begin),
                                          out(partial).at(3 * block).data);
  });
  Tensor total = sums.reshape(Shape{1, 3});
  reduce_kernels.on(x.device(), Dice::info.name).sum(partial, total, 1);
}

/// The two sides of the fraction.
struct Fraction {
  double n, d;
};
Fraction fraction_of(const Tensor& sums, double smooth) {
  return {2 * sums.at(0) + smooth, sums.at(1) + sums.at(2) + smooth};
}

void loss_of(const Tensor& sums, double smooth, Tensor& loss) {
  const Fraction f = fraction_of(sums, smooth);
  loss.fill(1 - f.n / f.d);
}

void affine_gradient(const Tensor& other_any, const Tensor& sums, double smooth, const Tensor& gy, Tensor& g) {
  const Tensor other = other_any.contiguous_copy();
  const Fraction f = fraction_of(sums, smooth);
  const double offset = gy.item() * f.n / f.d / f.d, factor = 2 * gy.item() / f.d;
  const bool is_double = g.dtype() == DType::f64;
  parallel_for(g.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    cpu::kernels().pointwise.losses->affine(in(other).at(begin), offset, factor, out(g).at(begin), end - begin,
                                            is_double);
  });
}

}  // namespace

Tensors Dice::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  detail::check_loss(info, in);
  check<ArgumentError>(p.smooth >= 0, "{}: wanted smooth >= 0, got {}", where(info.name), p.smooth);
  Tensor sums = Tensor::empty(Shape{3}, accumulate_dtype(in[0].dtype()), in[0].device());
  kernels.on(in[0].device(), info.name).sums(in[0], in[1], sums);
  Tensor loss = Tensor::empty(Shape{}, ctx.store_dtype, in[0].device());
  kernels.on(in[0].device(), info.name).loss(sums, p.smooth, loss);
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
    const Tensor& other = ctx.saved(1 - i, info.name);
    kernels.on(other.device(), info.name).gradient(other, sums, p.smooth, gy[0], destination);
  }
}

void register_dice_cpu() { Dice::kernels.fill(DeviceType::kCpu, {&three_sums, &loss_of, &affine_gradient}); }

}  // namespace binade::ops
