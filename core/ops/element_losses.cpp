#include "binade/core/ops/element_losses.h"

#include <algorithm>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/losses.h"
#include "binade/core/ops/lists.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/parallel.h"

namespace binade::ops {

namespace detail {

void check_loss(const OpInfo& info, std::span<const Tensor> in) {
  check_floating(info, in.first(1));
  check<ShapeError>(in[0].shape() == in[1].shape(), "{}: wanted a target of the prediction's shape {}, got {}",
                    where(info.name), in[0].shape(), in[1].shape());
}

double divisor_of(Reduction reduction, const Shape& shape) {
  switch (reduction) {
    case Reduction::kMean: return static_cast<double>(shape.numel());
    case Reduction::kSum: return 1;
    case Reduction::kBatchMean: return static_cast<double>(shape.rank() == 0 ? 1 : shape.dim(0));
  }
  return 1;
}

}  // namespace detail

namespace {

constexpr std::int64_t kGrain = 1 << 14;

cpu::In in(const Tensor& t) { return {t.raw(), t.dtype()}; }
cpu::Out out(Tensor& t) { return {t.mutable_raw(), t.dtype()}; }

template <class Op>
struct ElementLossCpu {
  using Params = typename Op::Params;
  static const cpu::LossLoops<Op>& loops() { return cpu::kernels().pointwise.losses->element; }

  static void forward(const Tensor& x_any, const Tensor& t_any, double divisor, Tensor& loss, const Params& p) {
    const Tensor x = x_any.contiguous_copy(), t = t_any.contiguous_copy();
    const std::int64_t blocks = (x.numel() + kGrain - 1) / kGrain;
    Tensor partial = Tensor::empty(Shape{blocks}, accumulate_dtype(x.dtype()));
    parallel_blocks(blocks, [&](std::int64_t block) {
      const std::int64_t begin = block * kGrain, count = std::min(kGrain, x.numel() - begin);
      loops().sum(in(x).at(begin), in(t).at(begin), count, p, out(partial).at(block).data);
    });
    Tensor total = loss.reshape(Shape{1});
    reduce_kernels.on(x.device(), Op::info.name).sum(partial, total, divisor);
  }

  static void backward(int which, const Tensor& x_any, const Tensor& t_any, const Tensor& gy, double divisor, Tensor& g,
                       const Params& p) {
    const Tensor x = x_any.contiguous_copy(), t = t_any.contiguous_copy();
    const double scale = gy.item() / divisor;
    parallel_for(x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      loops().gradient(which, in(x).at(begin), in(t).at(begin), scale, out(g).at(begin), end - begin, p);
    });
  }
};

}  // namespace

void register_element_losses_cpu() {
  for_each_op(ElementLosses{}, []<class Op>(OpTag<Op>) {
    element_loss_kernels<Op>.fill(DeviceType::kCpu, {&ElementLossCpu<Op>::forward, &ElementLossCpu<Op>::backward});
  });
}

}  // namespace binade::ops
