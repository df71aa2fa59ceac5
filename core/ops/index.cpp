#include "binade/core/ops/index.h"

#include <fmt/format.h>

#include "binade/core/faults.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

/// Returns an index tensor as i64, contiguous.
Tensor checked_index(const char* op, const Tensor& index) {
  check<DTypeError>(index.dtype() == DType::i64 || index.dtype() == DType::i32,
                    "{}: wanted indices of i64 or i32, got {}", where(op), name_of(index.dtype()));
  return index.to(DType::i64).contiguous_copy();
}

std::uint64_t register_indices(const char* op, int axis, std::int64_t extent, const Shape& shape) {
  return register_call([op = where(op).to_string(), axis, extent, shape](std::int64_t position, std::int64_t index) {
    return fmt::format(
        "{}: wanted indices in [0, {}) along axis {}, got {} at position {} of the index; negative "
        "indices do not count from the end here",
        op, extent, axis, index, shape.position(position));
  });
}

/// Returns the IndexGrid of `index` along `axis` of a tensor of shape x. REQUIRES: both have elements.
IndexGrid grid_of(const Tensor& index, const Shape& x, int axis) {
  const AxisView from(index.shape(), axis), to(x, axis);
  IndexGrid g{.outer = from.outer, .count = from.extent, .inner = from.inner, .extent = to.extent, .step = to.inner};
  g.index = index.data<std::int64_t>();
  for (int d = 0; d < x.rank(); ++d) g.partial = g.partial || (d != axis && index.dim(d) != x[d]);
  if (!g.partial) return g;
  g.before = axis;
  std::vector<std::int64_t> strides(static_cast<std::size_t>(x.rank()), 1);
  for (int d = x.rank() - 2; d >= 0; --d)
    strides[static_cast<std::size_t>(d)] = strides[static_cast<std::size_t>(d) + 1] * x[d + 1];
  for (int d = 0; d < x.rank(); ++d) {
    if (d == axis) continue;
    g.dims[g.rank] = index.dim(d);
    g.strides[g.rank++] = strides[static_cast<std::size_t>(d)];
  }
  return g;
}

/// Like grid_of(), for an index of rank 1 with one element for each position along `axis` of `shape`. `shape` is x with
/// another extent at that axis.
IndexGrid row_grid(const Tensor& index, const Shape& shape, const Shape& x, int axis) {
  const AxisView from(shape, axis), to(x, axis);
  return {.outer = from.outer,
          .count = from.extent,
          .inner = from.inner,
          .extent = to.extent,
          .step = to.inner,
          .index = index.data<std::int64_t>(),
          .by_row = true};
}

/// Throws ShapeError unless an index of this shape fits x.
void check_index_shape(const char* op, const Shape& index, const Shape& x, int axis) {
  bool fits = index.rank() == x.rank();
  for (int d = 0; fits && d < x.rank(); ++d) fits = d == axis || index[d] <= x[d];
  check<ShapeError>(fits,
                    "{}: wanted an index of rank {} that is at most as large as {} along axes other than {}, got {}",
                    where(op), x.rank(), x, axis, index);
}
void check_row_index(const char* op, const Tensor& index) {
  check<ShapeError>(index.rank() <= 1, "{}: wanted an index of rank 1, got {}", where(op), index.shape());
}
void check_has_positions(const char* op, const Shape& x, const Shape& results) {
  check<ShapeError>(x.numel() > 0 || results.numel() == 0, "{}: wanted a tensor with elements to index, got {}",
                    where(op), x);
}

/// Like checked_axis(), but treats a scalar as a tensor with one axis.
int axis_in(const char* op, int axis, int rank) { return checked_axis(op, axis, rank > 0 ? rank : 1); }

Tensor gathered(const Tensor& x, const IndexGrid& grid, const Shape& shape) {
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  if (y.numel() > 0)
    kernels(x.device())
        .gather({.grid = grid, .element_bytes = size_of(x.dtype()), .from = x.raw(), .to = y.mutable_raw()});
  return y;
}

/// Sets gx at each position to the sum of the gy whose index refers to that position.
void scatter_gradient_of_gather(const char* op, const Tensor& gy, const Shape& shape, GradSink& gx, bool by_row,
                                const Tensor& index, int axis) {
  InputGradient g(gx, 0, accumulate_dtype(gy.dtype()));
  if (!g.needed()) return;
  g.tensor().fill(0);
  if (gy.numel() > 0) {
    const Tensor wide = gy.to(g.tensor().dtype());
    IndexGrid grid = by_row ? row_grid(index, gy.shape(), shape, axis) : grid_of(index, shape, axis);
    grid.call = register_indices(op, axis, grid.extent, index.shape());
    kernels(gy.device())
        .scatter({.grid = grid,
                  .how = Scattering::kAdd,
                  .dtype = wide.dtype(),
                  .source = wide.raw(),
                  .into = g.tensor().mutable_raw()});
  }
  g.finish();
}

/// True if the gradient depends on the values that were combined.
bool needs_values(Scattering how) {
  return how == Scattering::kProduct || how == Scattering::kLargest || how == Scattering::kSmallest;
}

}  // namespace

Tensors Gather::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const Tensor x = in[0].contiguous_copy(), index = checked_index(p.name, in[1]);
  const int axis = axis_in(p.name, p.axis, x.rank());
  check_index_shape(p.name, index.shape(), x.shape(), axis);
  check_has_positions(p.name, x.shape(), index.shape());
  ctx.save(index);
  if (index.numel() == 0) return {Tensor::empty(index.shape(), ctx.store_dtype, x.device())};
  IndexGrid grid = grid_of(index, x.shape(), axis);
  grid.call = register_indices(p.name, axis, grid.extent, index.shape());
  return {gathered(x, grid, index.shape()).to(ctx.store_dtype)};
}

void Gather::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const Shape& x = ctx.inputs[0].shape;
  scatter_gradient_of_gather(p.name, gy[0], x, gx, false, ctx.saved(0, info.name), axis_in(p.name, p.axis, x.rank()));
}

Tensors IndexSelect::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const Tensor x = in[0].contiguous_copy(), index = checked_index(p.name, in[1]);
  const int axis = checked_axis(p.name, p.axis, x.rank());
  check_row_index(p.name, index);
  const Shape shape = x.shape().with_dim(axis, index.numel());
  check_has_positions(p.name, x.shape(), shape);
  ctx.save(index);
  if (shape.numel() == 0) return {Tensor::empty(shape, ctx.store_dtype, x.device())};
  IndexGrid grid = row_grid(index, shape, x.shape(), axis);
  grid.call = register_indices(p.name, axis, grid.extent, index.shape());
  return {gathered(x, grid, shape).to(ctx.store_dtype)};
}

void IndexSelect::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const Shape& x = ctx.inputs[0].shape;
  scatter_gradient_of_gather(p.name, gy[0], x, gx, true, ctx.saved(0, info.name),
                             checked_axis(p.name, p.axis, x.rank()));
}

Tensors Scatter::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const Tensor &x = in[0], index = checked_index(p.name, in[1]);
  check<DTypeError>(x.dtype() == in[2].dtype() || (is_floating(x.dtype()) && is_floating(in[2].dtype())),
                    "{}: wanted a source of the tensor's dtype {}, got {}", where(p.name), name_of(x.dtype()),
                    name_of(in[2].dtype()));
  const int axis = p.by_row ? checked_axis(p.name, p.axis, x.rank()) : axis_in(p.name, p.axis, x.rank());
  Shape shape = index.shape();
  if (p.by_row) {
    check_row_index(p.name, index);
    shape = x.shape().with_dim(axis, index.numel());
  } else {
    check_index_shape(p.name, shape, x.shape(), axis);
  }
  const bool one = in[2].rank() == 0 && shape.rank() > 0;
  check<ShapeError>(one || in[2].shape() == shape, "{}: wanted a source of shape {} or a scalar, got {}", where(p.name),
                    shape, in[2].shape());
  check_has_positions(p.name, x.shape(), shape);
  const DType dtype = p.how != Scattering::kAssign && is_half(ctx.store_dtype) ? DType::f32 : ctx.store_dtype;
  const Tensor source = in[2].to(dtype).contiguous_copy();
  Tensor y = x.to(dtype);
  if (y.shares_storage_with(x) || !y.contiguous()) y = y.clone();
  if (shape.numel() > 0) {
    IndexGrid grid = p.by_row ? row_grid(index, shape, x.shape(), axis) : grid_of(index, x.shape(), axis);
    grid.call = register_indices(p.name, axis, grid.extent, index.shape());
    kernels(x.device())
        .scatter({.grid = grid,
                  .how = p.how,
                  .include_self = p.include_self,
                  .dtype = dtype,
                  .source = source.raw(),
                  .one_source = one,
                  .into = y.mutable_raw()});
  }
  y = y.to(ctx.store_dtype);
  ctx.save(index);
  if (needs_values(p.how)) {
    ctx.save(x.contiguous_copy());
    ctx.save(source);
    ctx.save(y);
  }
  return {y};
}

void Scatter::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& sink, const Params& p) {
  const bool for_x = sink.needs(0), for_source = sink.needs(2);
  if (!for_x && !for_source) return;
  const Tensor& index = ctx.saved(0, info.name);
  const Shape& x = ctx.inputs[0].shape;
  const DType dtype = accumulate_dtype(gy[0].dtype());
  const int axis = p.by_row ? checked_axis(p.name, p.axis, x.rank()) : axis_in(p.name, p.axis, x.rank());
  const Shape shape = p.by_row ? x.with_dim(axis, index.numel()) : index.shape();
  const Tensor g = gy[0].to(dtype);
  Tensor gx = g.clone();
  Tensor gsource = for_source ? Tensor::empty(shape, dtype, g.device()) : Tensor();
  if (shape.numel() > 0) {
    ScatterGradientArgs a{.grid = p.by_row ? row_grid(index, shape, x, axis) : grid_of(index, x, axis),
                          .how = p.how,
                          .include_self = p.include_self,
                          .dtype = dtype,
                          .gy = g.raw(),
                          .gx = gx.mutable_raw(),
                          .gsource = for_source ? gsource.mutable_raw() : nullptr};
    a.grid.call = register_indices(p.name, axis, a.grid.extent, index.shape());
    Tensor values[3];
    if (needs_values(p.how)) {
      for (int i = 0; i < 3; ++i) values[i] = ctx.saved(i + 1, info.name).to(dtype);
      if (!(values[1].shape() == shape)) values[1] = Tensor::full(shape, values[1].on_host().item(), dtype, g.device());
      a.x = values[0].raw();
      a.source = values[1].raw();
      a.y = values[2].raw();
    }
    kernels(g.device()).scatter_gradient(a);
  }
  if (for_x) sink.set(0, gx.to(ctx.inputs[0].grad_dtype));
  if (!for_source) return;
  if (!(gsource.shape() == ctx.inputs[2].shape)) {
    Tensor sum = Tensor::empty(ctx.inputs[2].shape, dtype, g.device());
    sum_to(gsource, sum);
    gsource = sum;
  }
  sink.set(2, gsource.to(ctx.inputs[2].grad_dtype));
}

Tensor linear_index(const char* op, const std::vector<Tensor>& indices, const Shape& shape) {
  const auto n = static_cast<int>(indices.size());
  check<ArgumentError>(n > 0 && n <= shape.rank(), "{}: wanted 1 to {} index tensors for {}, got {}", where(op),
                       shape.rank(), shape, n);
  std::vector<Tensor> kept;
  Shape all;
  for (const Tensor& index : indices) {
    check<ArgumentError>(index.defined(), "{}: wanted an index tensor for each of the first axes", where(op));
    check<DeviceError>(index.device() == indices[0].device(), "{}: wanted index tensors on one device, got {} and {}",
                       where(op), indices[0].device(), index.device());
    kept.push_back(checked_index(op, index));
    all = broadcast(all, index.shape(), op);
  }
  Tensor to = Tensor::empty(all, DType::i64, indices[0].device());
  if (all.numel() == 0) return to;
  LinearIndexArgs a{.indices = n, .rank = all.rank(), .count = all.numel(), .to = to.mutable_data<std::int64_t>()};
  for (int d = 0; d < all.rank(); ++d) a.dims[d] = all[d];
  std::int64_t stride = 1;
  for (int k = n - 1; k >= 0; --k) {
    const Tensor& index = kept[static_cast<std::size_t>(k)];
    a.index[k] = index.data<std::int64_t>();
    a.extents[k] = shape[k];
    a.strides[k] = stride;
    stride = shape[k] == 0 ? 0 : stride * shape[k];
    std::int64_t step = 1;
    for (int d = index.rank() - 1; d >= 0; --d) {
      if (index.dim(d) != 1) a.index_strides[k][all.rank() - index.rank() + d] = step;
      step *= index.dim(d);
    }
  }
  a.call = register_call([op = where(op).to_string(), shape, all, n](std::int64_t position, std::int64_t index) {
    const auto axis = static_cast<int>(position % n);
    return fmt::format("{}: wanted indices in [{}, {}) for axis {}, got {} at position {} of the index", op,
                       -shape[axis], shape[axis], axis, index, all.position(position / n));
  });
  kernels(to.device()).linear_index(a);
  return to;
}

Tensor coordinates_of(const Tensor& flat, const Shape& shape) {
  Tensor to = Tensor::empty(Shape{flat.numel(), shape.rank()}, DType::i64, flat.device());
  if (to.numel() == 0) return to;
  CoordinatesArgs a{.rank = shape.rank(),
                    .flat = flat.data<std::int64_t>(),
                    .count = flat.numel(),
                    .to = to.mutable_data<std::int64_t>()};
  for (int d = 0; d < shape.rank(); ++d) a.dims[d] = shape[d];
  kernels(flat.device()).coordinates(a);
  return to;
}

}  // namespace binade::ops
