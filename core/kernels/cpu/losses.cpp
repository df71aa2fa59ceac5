#include <algorithm>

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/loss_loops.h"
#include "binade/core/kernels/views.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

double load_scalar(In x) {
  return dispatch_float(x.dtype, "loss",
                        [&]<class T>(TypeTag<T>) { return static_cast<double>(load(*static_cast<const T*>(x.data))); });
}

/// Calls sum(begin, n, results) for each block of kGrain of the `count` elements, adds the blocks' `width` results in a
/// tree, divides them by `divisor` and stores them in `to`.
template <class F>
void add_blocks(std::int64_t count, std::int64_t width, DType dtype, double divisor, Out to, F&& sum) {
  const std::int64_t blocks = (count + kGrain - 1) / kGrain;
  Tensor partial = Tensor::empty(Shape{blocks, width}, accumulate_dtype(dtype));
  parallel_blocks(blocks, [&](std::int64_t block) {
    const std::int64_t begin = block * kGrain;
    sum(begin, std::min(kGrain, count - begin), output(partial).at(width * block).data);
  });
  ReduceArgs a{.divisor = divisor, .x = input(partial), .y = to};
  if (blocks != 1) a.extents[a.groups] = blocks, a.reduced[a.groups++] = true;
  if (width != 1) a.extents[a.groups++] = width;
  run_reduce(a);
}

DiceFraction fraction_of(In sums, double smooth) {
  return {load_scalar(sums), load_scalar(sums.at(1)), load_scalar(sums.at(2)), smooth};
}

template <class Op>
void element_loss(const ElementLossArgs& a) {
  const LossLoops<Op>& loops = level().losses->element;
  const auto p = a.params.as<typename Op::Params>();
  if (a.each)
    return parallel_for(a.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      const In x = a.x.at(begin), t = a.t.at(begin);
      if (a.direction == 0) return loops.values(x, t, a.out.at(begin), end - begin, p);
      loops.gradients(a.direction - 1, x, t, a.gy.at(begin), a.out.at(begin), end - begin, p);
    });
  if (a.direction == 0)
    return add_blocks(a.count, 1, a.x.dtype, a.divisor, a.out, [&](std::int64_t begin, std::int64_t count, void* sum) {
      loops.sum(a.x.at(begin), a.t.at(begin), count, p, sum);
    });
  const double scale = load_scalar(a.gy) / a.divisor;
  parallel_for(a.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    loops.gradient(a.direction - 1, a.x.at(begin), a.t.at(begin), scale, a.out.at(begin), end - begin, p);
  });
}

}  // namespace

void run_element_loss(const ElementLossArgs& a) {
  ops::with_op(ops::ElementLosses{}, a.op, [&]<class Op>(ops::OpTag<Op>) { element_loss<Op>(a); });
}

void run_dice_sums(const DiceSumsArgs& a) {
  add_blocks(a.count, 3, a.x.dtype, 1, a.sums, [&](std::int64_t begin, std::int64_t count, void* sums) {
    level().losses->dice(a.x.at(begin), a.t.at(begin), count, sums);
  });
}

void run_dice_loss(const DiceLossArgs& a) {
  run_fill({.to = {a.loss.data, a.loss.dtype, 1}, .value = fraction_of(a.sums, a.smooth).loss(), .rows = 1, .cols = 1});
}

void run_dice_gradient(const DiceGradientArgs& a) {
  const DiceFraction f = fraction_of(a.sums, a.smooth);
  const double gy = load_scalar(a.gy), offset = f.offset(gy), factor = f.factor(gy);
  const bool is_double = a.g.dtype == DType::f64;
  parallel_for(a.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    level().losses->affine(a.other.at(begin), offset, factor, a.g.at(begin), end - begin, is_double);
  });
}

}  // namespace binade::cpu
