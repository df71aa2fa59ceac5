#include "binade/core/ops/order.h"

#include <array>

#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/cumulate.h"
#include "binade/core/ops/index.h"
#include "binade/core/ops/permute.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

/// Returns x in the dtype in which its elements are compared, contiguous.
Tensor comparable(const Tensor& x) { return x.to(is_half(x.dtype()) ? DType::f32 : x.dtype()).contiguous_copy(); }

/// Exchanges the last two dimensions of a tensor of rank 3.
Tensor exchanged(const Tensor& x) {
  OpContext ctx;
  return Permute::forward(ctx, std::span(&x, 1), {.order = {0, 2, 1}}).front();
}

struct Flags {
  Tensor flags, upto;
  std::int64_t set = 0;
};

/// Flags the elements that are not 0 or, with `changes`, that begin a run. Counts the flags.
Flags flags_of(const Tensor& any, bool changes) {
  const Tensor x = comparable(any);
  Flags f{Tensor::empty(Shape{x.numel()}, DType::boolean, x.device()), {}, 0};
  if (x.numel() == 0) {
    f.upto = Tensor::empty(Shape{0}, DType::i64, x.device());
    return f;
  }
  const KernelTable& table = kernels(x.device());
  table.flag({.x = input(x), .count = x.numel(), .changes = changes, .flags = f.flags.mutable_data<bool>()});
  OpContext ctx;
  f.upto = Cumulate::forward(ctx, std::span(&f.flags, 1), {.axis = 0}).front();
  f.set = f.upto.narrow(x.numel() - 1, 1).on_host().data<std::int64_t>()[0];
  return f;
}

/// Returns the positions of the set flags. `group`, if not null, gets for each element the index of the last set flag
/// up to it.
Tensor positions_of(const Flags& f, Tensor* group) {
  Tensor to = Tensor::empty(Shape{f.set}, DType::i64, f.flags.device());
  if (group != nullptr) *group = Tensor::empty(f.upto.shape(), DType::i64, f.flags.device());
  if (f.flags.numel() == 0) return to;
  kernels(to.device())
      .compact({.flags = f.flags.data<bool>(),
                .upto = f.upto.data<std::int64_t>(),
                .count = f.flags.numel(),
                .to = to.mutable_data<std::int64_t>(),
                .group = group != nullptr ? group->mutable_data<std::int64_t>() : nullptr});
  return to;
}

DType common_dtype(DType a, DType b) {
  if (!is_floating(a) && !is_floating(b)) return DType::i64;
  for (const DType d : {a, b})
    if (d == DType::f64 || d == DType::i64 || d == DType::i32) return DType::f64;
  return DType::f32;
}

}  // namespace

Tensors Sort::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  const Tensor x = comparable(in[0]);
  const int axis = checked_axis(p.name, p.axis, x.rank() > 0 ? x.rank() : 1);
  const std::int64_t n = x.rank() > 0 ? x.dim(axis) : 1, k = p.k == -1 ? n : p.k;
  check<ArgumentError>(k >= 0 && k <= n, "{}: wanted k in [0, {}] for axis {} of {}, got {}", where(p.name), n, axis,
                       x.shape(), k);
  const Shape shape = x.rank() > 0 ? x.shape().with_dim(axis, k) : x.shape();
  if (shape.numel() == 0) return {Tensor::empty(shape, DType::i64, x.device())};
  const AxisView v(x.shape(), axis);
  const bool last = v.inner == 1;
  const Tensor rows = last ? x : exchanged(x.reshape(Shape{v.outer, n, v.inner}));
  Tensor index = Tensor::empty(last ? shape : Shape{v.outer, v.inner, k}, DType::i64, x.device());
  kernels(x.device())
      .sort({.x = input(rows),
             .rows = v.outer * v.inner,
             .n = n,
             .k = k,
             .descending = p.descending,
             .median = p.median,
             .index = index.mutable_data<std::int64_t>()});
  return {last ? index : exchanged(index).reshape(shape)};
}

Tensors SearchSorted::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  const DType dtype = common_dtype(in[0].dtype(), in[1].dtype());
  const Tensor sorted = in[0].to(dtype).contiguous_copy(), values = in[1].to(dtype).contiguous_copy();
  const bool one = sorted.rank() == 1;
  check<ShapeError>(one || (sorted.rank() > 1 && sorted.rank() == values.rank() &&
                            sorted.shape().with_dim(-1, values.shape().cols()) == values.shape()),
                    "{}: wanted one sorted row (n), or sorted rows with the outer extents of the values {}, got {}",
                    where(p.name), values.shape(), sorted.shape());
  Tensor to = Tensor::empty(values.shape(), DType::i64, values.device());
  if (to.numel() > 0)
    kernels(to.device())
        .search({.sorted = input(sorted),
                 .values = input(values),
                 .rows = values.shape().rows(),
                 .n = sorted.shape().cols(),
                 .m = values.shape().cols(),
                 .one_row = one,
                 .right = p.right,
                 .to = to.mutable_data<std::int64_t>()});
  return {to};
}

Tensor nonzero_positions(const Tensor& x) { return positions_of(flags_of(x, false), nullptr); }

Runs runs_of(const Tensor& x) {
  Runs runs;
  runs.starts = positions_of(flags_of(x, true), &runs.group);
  runs.counts = count_positions(runs.group, runs.starts.numel(), DType::i64);
  return runs;
}

std::int64_t extreme_position(const char* op, const Tensor& x, bool largest) {
  check<ShapeError>(x.numel() > 0, "{}: wanted elements, got {}", where(op), x.shape());
  const Tensor flat = x.contiguous_copy().reshape(Shape{x.numel()});
  OpContext ctx;
  const Tensor index = CumulativeExtreme::forward(ctx, std::span(&flat, 1), {.axis = 0, .largest = largest}).front();
  return index.narrow(x.numel() - 1, 1).on_host().data<std::int64_t>()[0];
}

Tensor count_positions(const Tensor& index, std::int64_t bins, DType dtype, const Tensor& weights) {
  const Tensor counts = Tensor::zeros(Shape{bins}, dtype, index.device());
  if (index.numel() == 0) return counts;
  OpContext ctx;
  ctx.store_dtype = dtype;
  const Tensor one = weights.defined() ? weights.to(dtype) : Tensor::scalar(1, dtype, index.device());
  const std::array<Tensor, 3> in{counts, index, one};
  return Scatter::forward(ctx, in, {.axis = 0, .how = Scattering::kAdd, .name = "bincount"}).front();
}

Tensor bins_of(const Tensor& any, double low, double high, std::int64_t bins) {
  const Tensor x = any.contiguous_copy();
  Tensor to = Tensor::empty(Shape{x.numel()}, DType::i64, x.device());
  if (x.numel() > 0)
    kernels(x.device())
        .bin({.x = input(x),
              .count = x.numel(),
              .low = low,
              .high = high,
              .bins = bins,
              .to = to.mutable_data<std::int64_t>()});
  return to;
}

}  // namespace binade::ops
