#include "binade/core/ops/reduce.h"

#include <algorithm>
#include <array>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/elementwise.h"
#include "binade/core/kernels/reduce.h"
#include "binade/core/observation.h"
#include "binade/core/ops/broadcast_plan.h"
#include "binade/core/ops/lists.h"
#include "binade/core/ops/sum_to.h"

namespace binade::ops {
namespace {

constexpr std::int64_t kGrain = 1 << 14;    // elements in one serial piece
constexpr std::int64_t kColumns = 1 << 12;  // columns that one piece keeps in cache
constexpr std::int64_t kLeastRows = 32;     // rows in a piece, so that partial results stay few

/// Tensors seen as (outer, reduced, inner), contiguous.
struct View {
  std::int64_t outer, reduced, inner;
};

/// partial (outer, pieces, inner) -> its first piece holds the pairwise combination of all.
void combine_pieces(Tensor& partial, std::int64_t outer, std::int64_t pieces, std::int64_t inner,
                    const cpu::ReduceLoops& loops) {
  const bool is_double = partial.dtype() == DType::f64;
  const cpu::Out base{partial.mutable_raw(), partial.dtype()};
  const std::int64_t slices = (inner + kColumns - 1) / kColumns;
  parallel_blocks(outer * slices, [&](std::int64_t block) {
    const std::int64_t column = block % slices * kColumns;
    const std::int64_t count = std::min(kColumns, inner - column);
    const cpu::Out start = base.at(block / slices * pieces * inner + column);
    for (std::int64_t apart = 1; apart < pieces; apart *= 2)
      for (std::int64_t i = 0; i + apart < pieces; i += 2 * apart)
        loops.combine(start.at(i * inner).data, start.at((i + apart) * inner).data, count, is_double);
  });
}

/// partial (outer, pieces, inner) -> (outer, inner), pieces combined.
Tensor combined(Tensor& partial, const View& v, std::int64_t pieces, const cpu::ReduceLoops& loops) {
  if (pieces == 1) return partial;
  combine_pieces(partial, v.outer, pieces, v.inner, loops);
  Tensor total = Tensor::empty(Shape{v.outer, v.inner}, partial.dtype());
  for (std::int64_t o = 0; o < v.outer; ++o)
    total.narrow(o, 1).copy_from(partial.narrow(o, 1).reshape(Shape{pieces, v.inner}).narrow(0, 1));
  return total;
}

/// x (outer, reduced) -> (outer, 1) in the accumulate dtype: along memory.
Tensor reduce_rows(const Tensor& x, const View& v, const cpu::ReduceLoops& loops) {
  const cpu::In base{x.raw(), x.dtype()};
  const std::int64_t pieces = std::max<std::int64_t>(1, (v.reduced + kGrain - 1) / kGrain);
  const std::int64_t together = pieces > 1 ? 1
                                           : std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(v.reduced, 1));
  Tensor partial = Tensor::empty(Shape{v.outer, pieces, 1}, accumulate_dtype(x.dtype()));
  const cpu::Out results{partial.mutable_raw(), partial.dtype()};
  parallel_for(v.outer * pieces, together, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % pieces * kGrain;
      loops.run(base.at(i / pieces * v.reduced + first), std::min(kGrain, v.reduced - first), results.at(i).data);
    }
  });
  return combined(partial, v, pieces, loops);
}

/// x (outer, reduced, inner) -> (outer, inner) in the accumulate dtype: row upon row.
Tensor reduce_columns(const Tensor& x, const View& v, const cpu::ReduceLoops& loops) {
  const cpu::In base{x.raw(), x.dtype()};
  const std::int64_t rows = std::max(kLeastRows, kGrain / 2 / std::max<std::int64_t>(v.inner, 1));
  const std::int64_t pieces = std::max<std::int64_t>(1, (v.reduced + rows - 1) / rows);
  const std::int64_t slices = (v.inner + kColumns - 1) / kColumns;
  Tensor partial = Tensor::empty(Shape{v.outer, pieces, v.inner}, accumulate_dtype(x.dtype()));
  const cpu::Out results{partial.mutable_raw(), partial.dtype()};
  parallel_blocks(v.outer * pieces * slices, [&](std::int64_t block) {
    const std::int64_t column = block % slices * kColumns;
    const std::int64_t piece = block / slices % pieces;
    const std::int64_t o = block / slices / pieces;
    loops.rows(base.at((o * v.reduced + piece * rows) * v.inner + column), std::min(rows, v.reduced - piece * rows),
               v.inner, std::min(kColumns, v.inner - column), results.at((o * pieces + piece) * v.inner + column).data);
  });
  return combined(partial, v, pieces, loops);
}

/// Neighboring dimensions of one kind, outermost first.
struct Group {
  std::int64_t extent;
  bool reduced;
};
std::vector<Group> groups_of(const Shape& x, const Shape& y) {
  std::vector<Group> groups;
  for (int d = 0; d < x.rank(); ++d) {
    if (x.dim(d) == 1) continue;
    const bool reduced = y.dim(d) == 1;
    if (!groups.empty() && groups.back().reduced == reduced)
      groups.back().extent *= x.dim(d);
    else
      groups.push_back({x.dim(d), reduced});
  }
  return groups;
}

/// x reduced to the shape y of the same rank, one group of axes at a time from the innermost out.
Tensor reduce(const Tensor& x, const Shape& y, const cpu::ReduceLoops& loops) {
  std::vector<Group> groups = groups_of(x.shape(), y);
  Tensor value = x.contiguous_copy();
  for (std::size_t g = groups.size(); g-- > 0;) {
    if (!groups[g].reduced) continue;
    View view{1, groups[g].extent, 1};
    for (std::size_t i = 0; i < g; ++i) view.outer *= groups[i].extent;
    for (std::size_t i = g + 1; i < groups.size(); ++i) view.inner *= groups[i].extent;
    value = view.inner == 1 ? reduce_rows(value, view, loops) : reduce_columns(value, view, loops);
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
  }
  return value.reshape(y);
}

void sum(const Tensor& x, Tensor& y, double divisor) {
  const Tensor total = reduce(x, y.shape(), cpu::kernels().pointwise.reduction->sum);
  if (divisor == 1) {
    y.copy_from(total);
    const Observation seen = observe(total);  // before it is rounded
    binade::detail::note(size_of(y.dtype()) == 2 ? Observation{.low = seen.wide} : seen);
  } else {
    unary_kernels<DivScalar>.on(x.device(), "mean").forward(total, y, {divisor});
  }
}

void max(const Tensor& x, Tensor& y) { y.copy_from(reduce(x, y.shape(), cpu::kernels().pointwise.reduction->max)); }

void max_gradient(const Tensor& x, const Tensor& y, const Tensor& g, Tensor& gx) {
  const BroadcastPlan plan(gx.shape(), {&x, &y, &g, &gx});
  plan.for_each([&](const BroadcastPlan::Offsets& at, std::int64_t n) {
    const auto in = [&](const Tensor& t, std::size_t i) { return cpu::In{t.raw(), t.dtype()}.at(at[i]); };
    cpu::kernels().pointwise.reduction->max_gradient(in(x, 0), in(y, 1), plan.step(1), in(g, 2), plan.step(2),
                                                     cpu::Out{gx.mutable_raw(), gx.dtype()}.at(at[3]), n);
  });
}

/// The shape the user sees: reduced axes dropped unless they are to be kept.
Shape visible_shape(const Shape& x, const Shape& kept, const ReduceParams& p) {
  if (p.keepdim) return kept;
  std::vector<std::int64_t> dims;
  std::vector<bool> reduced(static_cast<std::size_t>(x.rank()), p.axes.empty());
  for (const int axis : p.axes) reduced[static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis)] = true;
  for (int d = 0; d < x.rank(); ++d)
    if (!reduced[static_cast<std::size_t>(d)]) dims.push_back(x.dim(d));
  return Shape(std::span<const std::int64_t>(dims));
}

double count_of(const Shape& x, const Shape& kept) {
  double count = 1;
  for (int d = 0; d < x.rank(); ++d)
    if (kept.dim(d) != x.dim(d)) count *= static_cast<double>(x.dim(d));
  return count;
}

Tensors sum_forward(const OpInfo& info, const OpContext& ctx, std::span<const Tensor> in, const ReduceParams& p,
                    bool mean) {
  detail::check_floating(info, in);
  const Shape kept = keepdim_shape(in[0].shape(), p.axes, info.name);
  Tensor y = Tensor::empty(kept, ctx.store_dtype, in[0].device());
  reduce_kernels.on(y.device(), info.name).sum(in[0], y, mean ? count_of(in[0].shape(), kept) : 1);
  return {y.reshape(visible_shape(in[0].shape(), kept, p))};
}

void sum_backward(const OpInfo& info, const OpContext& ctx, const Tensor& gy, GradSink& gx, const ReduceParams& p,
                  bool mean) {
  if (!gx.needs(0)) return;
  const Shape& shape = ctx.inputs[0].shape;
  const Shape kept = keepdim_shape(shape, p.axes, info.name);
  Tensor destination = gx.destination(0);
  const Tensor divisor = Tensor::scalar(mean ? count_of(shape, kept) : 1, accumulate_dtype(gy.dtype()), gy.device());
  binary_kernels<Div>.on(gy.device(), info.name).forward(gy.reshape(kept), divisor, destination, {});
}

}  // namespace

Shape keepdim_shape(const Shape& x, const std::vector<int>& axes, std::string_view op) {
  std::vector<std::int64_t> dims(x.dims().begin(), x.dims().end());
  std::vector<bool> seen(dims.size(), false);
  for (const int axis : axes) {
    check<ShapeError>(axis >= -x.rank() && axis < x.rank(), "{}: wanted axes of {} (rank {}), got axis {}", where(op),
                      x, x.rank(), axis);
    const std::size_t d = static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis);
    check<ArgumentError>(!seen[d], "{}: axis {} is named twice", where(op), axis);
    seen[d] = true;
  }
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (axes.empty() || seen[d]) dims[d] = 1;
  return Shape(std::span<const std::int64_t>(dims));
}

void sum_to(const Tensor& x, Tensor& y) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.rank() - y.rank()), 1);
  dims.insert(dims.end(), y.shape().dims().begin(), y.shape().dims().end());
  Tensor kept = y.reshape(Shape(std::span<const std::int64_t>(dims)));
  reduce_kernels.on(x.device(), "sum_to").sum(x, kept, 1);
}

Tensors Sum::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return sum_forward(info, ctx, in, p, false);
}
void Sum::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  sum_backward(info, ctx, gy[0], gx, p, false);
}

Tensors Mean::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return sum_forward(info, ctx, in, p, true);
}
void Mean::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  sum_backward(info, ctx, gy[0], gx, p, true);
}

Tensors Max::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  detail::check_floating(info, in);
  const Shape& shape = in[0].shape();
  const Shape kept = keepdim_shape(shape, p.axes, info.name);
  check<ShapeError>(shape.numel() > 0 || kept.numel() == 0, "{}: nothing to take the largest of in {}",
                    where(info.name), shape);
  Tensor y = Tensor::empty(kept, ctx.store_dtype, in[0].device());
  reduce_kernels.on(y.device(), info.name).max(in[0], y);
  ctx.save(in[0]);
  ctx.save(y);
  return {y.reshape(visible_shape(shape, kept, p))};
}

void Max::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  const Tensor& x = ctx.saved(0, info.name);
  const Tensor& y = ctx.saved(1, info.name);
  const ReduceKernels& kernel = reduce_kernels.on(x.device(), info.name);
  const DType dtype = accumulate_dtype(x.dtype());
  Tensor equals = Tensor::empty(x.shape(), dtype, x.device());
  kernel.max_gradient(x, y, Tensor::scalar(1, dtype, x.device()), equals);
  Tensor count = Tensor::empty(y.shape(), dtype, x.device());
  kernel.sum(equals, count, 1);
  Tensor share = Tensor::empty(y.shape(), dtype, x.device());
  binary_kernels<Div>.on(x.device(), info.name).forward(gy[0].reshape(y.shape()), count, share, {});
  Tensor destination = gx.destination(0);
  kernel.max_gradient(x, y, share, destination);
}

void register_reduce_cpu() { reduce_kernels.fill(DeviceType::kCpu, {&sum, &max, &max_gradient}); }

}  // namespace binade::ops
