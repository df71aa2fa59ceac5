#include "binade/core/ops/element_losses.h"

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"

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
    case Reduction::kSum:
    case Reduction::kNone: return 1;
    case Reduction::kBatchMean: return static_cast<double>(shape.rank() == 0 ? 1 : shape.dim(0));
  }
  return 1;
}

void element_loss(int op, int direction, const Tensor& x, const Tensor& t, const Tensor& gy, Reduction reduction,
                  Tensor& out, const OpParams& p) {
  const Tensor predictions = x.contiguous_copy(), targets = t.contiguous_copy();
  kernels(x.device())
      .element_loss({.op = op,
                     .direction = direction,
                     .each = reduction == Reduction::kNone,
                     .count = x.numel(),
                     .x = input(predictions),
                     .t = input(targets),
                     .gy = gy.defined() ? input(gy) : In{},
                     .divisor = divisor_of(reduction, x.shape()),
                     .out = output(out),
                     .params = p});
}

}  // namespace detail
}  // namespace binade::ops
