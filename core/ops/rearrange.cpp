#include "binade/core/ops/rearrange.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "binade/core/backend.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

std::uint64_t bits_of(double value, DType dtype) {
  std::uint64_t bits = 0;
  if (value == 0) return bits;
  const Tensor one = Tensor::full(Shape{1}, value, dtype);
  std::memcpy(&bits, one.raw(), size_of(dtype));
  return bits;
}

/// Copies to y the positions of x that the map names, or the fill value.
void copy_positions(const Tensor& x, int axis, const Rearrange::Params& p, Tensor& y) {
  const AxisView to(y.shape(), axis);
  kernels(x.device())
      .rearrange({.element_bytes = size_of(x.dtype()),
                  .outer = to.outer,
                  .count = to.extent,
                  .inner = to.inner,
                  .map = p.map,
                  .from = x.raw(),
                  .to = y.mutable_raw(),
                  .fill = bits_of(p.fill, x.dtype())});
}

/// True if the map gives no position twice.
bool is_injective(const Rearrange::Params& p) {
  const AxisMap& map = p.map;
  if (p.count <= 1) return true;
  if (map.window != 1 || map.step == 0) return false;
  if (map.beyond == OutOfRangeRule::kWrap) return (map.step == 1 || map.step == -1) && p.count <= map.extent;
  return map.beyond == OutOfRangeRule::kFill;
}

/// Sets each position of x to the sum of the positions of y that the map sends to it.
void sum_positions(const Tensor& y, int axis, const Rearrange::Params& p, Tensor& x) {
  const AxisView from(y.shape(), axis), to(x.shape(), axis);
  if (x.numel() == 0) return;
  if (y.numel() == 0 || is_injective(p)) {
    backend_of(x.device()).fill_zero(x.mutable_raw(), x.bytes(), Stream{x.device()});
    if (y.numel() == 0) return;
    return kernels(x.device())
        .rearrange({.element_bytes = size_of(x.dtype()),
                    .outer = from.outer,
                    .count = from.extent,
                    .inner = from.inner,
                    .map = p.map,
                    .push = true,
                    .from = y.raw(),
                    .to = x.mutable_raw()});
  }
  std::vector<std::int64_t> begin(static_cast<std::size_t>(to.extent) + 2), list;
  std::vector<std::int64_t> position(static_cast<std::size_t>(from.extent));
  for (std::size_t j = 0; j < position.size(); ++j) {
    position[j] = p.map(static_cast<std::int64_t>(j));
    if (position[j] >= 0) ++begin[static_cast<std::size_t>(position[j]) + 2];
  }
  for (std::size_t s = 2; s < begin.size(); ++s) begin[s] += begin[s - 1];
  list.resize(static_cast<std::size_t>(begin.back()));
  for (std::size_t j = 0; j < position.size(); ++j)
    if (const std::int64_t s = position[j]; s >= 0)
      list[static_cast<std::size_t>(begin[static_cast<std::size_t>(s) + 1]++)] = static_cast<std::int64_t>(j);
  kernels(x.device())
      .rearrange_sum({.outer = to.outer,
                      .extent = to.extent,
                      .count = from.extent,
                      .inner = to.inner,
                      .begin = begin.data(),
                      .from = list.data(),
                      .gy = input(y),
                      .gx = output(x)});
}

/// Writes the result of the copy or, with `adjoint`, of its transpose, the sum.
void run(const Tensor& from, int axis, const Rearrange::Params& p, bool adjoint, Tensor& to) {
  if (adjoint)
    sum_positions(from, axis, p, to);
  else if (to.numel() > 0)
    copy_positions(from, axis, p, to);
}

}  // namespace

void check_fits(std::string_view op, double value, DType dtype) {
  if (is_floating(dtype)) return;
  const double low = dtype == DType::i64   ? -0x1p63
                     : dtype == DType::i32 ? -0x1p31
                                           : 0,
               end = dtype == DType::i64   ? 0x1p63
                     : dtype == DType::i32 ? 0x1p31
                     : dtype == DType::u8  ? 256
                                           : 2;
  check<ArgumentError>(value >= low && value < end && value == std::floor(value),
                       "{}: wanted a value that {} holds, got {}", where(op), name_of(dtype), value);
}

Tensors Rearrange::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  const int axis = checked_axis(p.name, p.axis, in[0].rank());
  check<DTypeError>(!p.adjoint || is_floating(in[0].dtype()) || is_injective(p),
                    "{}: wanted a floating dtype to add overlapping parts in, got {}", where(p.name),
                    name_of(in[0].dtype()));
  check<ShapeError>(in[0].dim(axis) == (p.adjoint ? p.count : p.map.extent),
                    "{}: wanted {} positions along axis {}, got {}", where(p.name), p.adjoint ? p.count : p.map.extent,
                    axis, in[0].shape());
  check_fits(p.name, p.fill, in[0].dtype());
  const Tensor x = in[0].to(ctx.store_dtype).contiguous_copy();
  Tensor y = Tensor::empty(x.shape().with_dim(axis, p.adjoint ? p.map.extent : p.count), x.dtype(), x.device());
  run(x, axis, p, p.adjoint, y);
  return {y};
}

void Rearrange::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  InputGradient g(gx, 0, gy[0].dtype());
  if (!g.needed()) return;
  Params without_fill = p;
  without_fill.fill = 0;
  run(gy[0], checked_axis(p.name, p.axis, ctx.inputs[0].shape.rank()), without_fill, !p.adjoint, g.tensor());
  g.finish();
}

Tensors Expand::forward(OpContext&, std::span<const Tensor> in, const Params& p) {
  const Tensor& x = in[0];
  const auto rank = static_cast<int>(p.dims.size());
  const int before = rank - x.rank();
  const auto bad = [&] {
    return ShapeError(fmt::format("{}: wanted extents that {} can be repeated to (-1 keeps an extent), got ({})",
                                  where(info.name), x.shape(), fmt::join(p.dims, ", ")));
  };
  if (before < 0) throw bad();
  std::vector<std::int64_t> dims = p.dims, own(p.dims.size(), 1);
  for (int d = 0; d < rank; ++d) {
    const auto at = static_cast<std::size_t>(d);
    if (d >= before) own[at] = x.dim(d - before);
    if (dims[at] == -1 && d >= before) dims[at] = own[at];
    if (dims[at] < 0 || (dims[at] != own[at] && own[at] != 1)) throw bad();
  }
  const Shape shape{std::span<const std::int64_t>(dims)};
  Tensor y = x.contiguous_copy().reshape(Shape(std::span<const std::int64_t>(own)));
  if (shape.numel() == 0) return {Tensor::empty(shape, x.dtype(), x.device())};
  for (int d = rank - 1; d >= 0; --d) {
    if (y.dim(d) == shape[d]) continue;
    Tensor wider = Tensor::empty(y.shape().with_dim(d, shape[d]), x.dtype(), x.device());
    copy_positions(y, d, {.axis = d, .map = {.step = 0, .extent = 1}, .count = shape[d]}, wider);
    y = std::move(wider);
  }
  return {y};
}

void Expand::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  InputGradient g(gx, 0, gy[0].dtype());
  if (!g.needed()) return;
  std::vector<std::int64_t> dims(static_cast<std::size_t>(gy[0].rank() - ctx.inputs[0].shape.rank()), 1);
  for (const std::int64_t extent : ctx.inputs[0].shape.dims()) dims.push_back(extent);
  Tensor sum = g.tensor().reshape(Shape(std::span<const std::int64_t>(dims)));
  sum_to(gy[0], sum);
  g.finish();
}

}  // namespace binade::ops
