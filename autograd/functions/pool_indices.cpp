#include <cmath>

#include "binade/autograd/apply.h"
#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/math.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/scan.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

using derivatives::quotient;

/// Returns the first rows or columns of `count` windows, as i64 (count, 1, …) with `rank` axes.
Variable window_starts(std::int64_t count, std::int64_t stride, std::int64_t padding, int rank, Device device) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank), 1);
  dims[0] = count;
  return reshape((cumsum(Tensor::full(Shape{count}, 1, DType::i64, device), 0) - 1) * stride - padding, dims);
}

void check_rank(const char* name, const Variable& x, int rank) {
  bool fits = x.value().rank() == rank;
  for (const std::int64_t extent : x.shape().dims()) fits = fits && extent <= ops::kMaxExtent;
  check<ShapeError>(fits, "{}: wanted x of rank {} with extents of at most 2^30, got {}", where(name), rank, x.shape());
}

/// Checks x and the options of one pooled axis. `name`: the function that was called, for error texts.
void check_pooled(const char* name, const Variable& x, int axis, const char* dimension, std::int64_t kernel,
                  std::int64_t stride, std::int64_t padding) {
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted x of a floating dtype, got {}", where(name),
                    name_of(x.dtype()));
  ops::pooled_extent(OpInfo{.name = name}, dimension, x.dim(axis), kernel, stride == 0 ? kernel : stride, padding);
}

/// The extents of x that are pooled: all but the first and the last.
std::vector<std::int64_t> inner_extents(const Variable& x) {
  const auto dims = x.shape().dims();
  return {dims.begin() + 1, dims.end() - 1};
}

std::int64_t unpooled_extent(std::int64_t extent, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return (extent - 1) * stride - 2 * padding + kernel;
}

/// Returns zeros of the given extents, with each element of x at its index.
Variable unpooled(const char* name, const Variable& x, const Variable& indices, std::vector<std::int64_t> extents) {
  check<ShapeError>(x.shape() == indices.shape(), "{}: wanted indices of the shape of x, got {} and {}", where(name),
                    indices.shape(), x.shape());
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted x of a floating dtype, got {}", where(name),
                    name_of(x.dtype()));
  std::int64_t pixels = 1, sources = 1;
  for (const std::int64_t extent : extents) {
    check<ShapeError>(extent >= 0 && extent <= ops::kMaxExtent &&
                          (extent == 0 || pixels <= (std::int64_t{1} << 60) / extent),
                      "{}: wanted extents of the result from 0 to 2^30, got {}", where(name), extent);
    pixels *= extent;
  }
  for (const std::int64_t extent : inner_extents(x)) sources *= extent;
  const std::int64_t n = x.dim(0), channels = x.dim(-1);
  const Tensor zeros = Tensor::zeros(Shape{n, pixels, channels}, x.dtype(), x.device());
  const std::vector<std::int64_t> lines{n, sources, channels};
  const Variable y = scatter(zeros, 1, reshape(indices, lines), reshape(x, lines));
  extents.insert(extents.begin(), n);
  extents.push_back(channels);
  return reshape(y, extents);
}

void check_stride(const char* name, std::int64_t stride, std::int64_t kernel, std::int64_t padding) {
  const auto fits = [](std::int64_t v) { return v >= 0 && v <= ops::kMaxExtent; };
  check<ArgumentError>(fits(stride) && fits(kernel) && fits(padding) && kernel >= 1,
                       "{}: wanted a kernel from 1 to 2^30, stride and padding from 0 to 2^30, got {}, {} and {}",
                       where(name), kernel, stride, padding);
}

}  // namespace

MaxPoolResult max_pool2d_with_indices(const Variable& x, const PoolOptions& o) {
  constexpr const char* kName = "max_pool2d_with_indices";
  const Extent2 stride = o.resolved_stride();
  check_rank(kName, x, 4);
  check_pooled(kName, x, 1, "height", o.kernel.y, stride.y, o.padding.y);
  check_pooled(kName, x, 2, "width", o.kernel.x, stride.x, o.padding.x);
  std::vector<Variable> y = apply<ops::MaxPool2dIndices>({.kernel = o.kernel, .stride = stride, .padding = o.padding},
                                                         {x});
  if (y[0].value().numel() == 0) return {y[0], cast(y[1], DType::i64)};
  const std::int64_t rows = y[0].dim(1), columns = y[0].dim(2), width = x.dim(2);
  const Variable inside = cast(y[1], DType::i64), row = quotient(inside, o.kernel.x);
  const Variable column = inside - row * o.kernel.x;
  const Variable top = window_starts(rows, stride.y, o.padding.y, 3, x.device()),
                 left = window_starts(columns, stride.x, o.padding.x, 2, x.device());
  return {y[0], (row + top) * width + (column + left)};
}

MaxPoolResult max_pool1d_with_indices(const Variable& x, const Pool1dOptions& o) {
  check_rank("max_pool1d_with_indices", x, 3);
  check_pooled("max_pool1d_with_indices", x, 1, "length", o.kernel, o.stride, o.padding);
  const auto [values, indices] = max_pool2d_with_indices(
      reshape(x, {x.dim(0), 1, x.dim(1), x.dim(2)}),
      {.kernel = {1, o.kernel}, .stride = {1, o.stride == 0 ? o.kernel : o.stride}, .padding = {0, o.padding}});
  const std::vector<std::int64_t> dims{values.dim(0), values.dim(2), values.dim(3)};
  return {reshape(values, dims), reshape(indices, dims)};
}

MaxPoolResult max_pool3d_with_indices(const Variable& x, const Pool3dOptions& o) {
  constexpr const char* kName = "max_pool3d_with_indices";
  check_rank(kName, x, 5);
  const Extent3 stride = o.stride == Extent3(0) ? o.kernel : o.stride;
  check_pooled(kName, x, 1, "depth", o.kernel.z, stride.z, o.padding.z);
  check_pooled(kName, x, 2, "height", o.kernel.y, stride.y, o.padding.y);
  check_pooled(kName, x, 3, "width", o.kernel.x, stride.x, o.padding.x);
  const std::int64_t n = x.dim(0), depth = x.dim(1), channels = x.dim(4), pixels = x.dim(2) * x.dim(3);
  const auto planes = max_pool2d_with_indices(
      reshape(x, {n * depth, x.dim(2), x.dim(3), channels}),
      {.kernel = o.kernel.plane(), .stride = stride.plane(), .padding = o.padding.plane()});
  const std::int64_t height = planes.values.dim(1), width = planes.values.dim(2), windows = height * width;
  const auto y = max_pool2d_with_indices(
      reshape(planes.values, {n, depth, windows, channels}),
      {.kernel = {o.kernel.z, 1}, .stride = {stride.z, 1}, .padding = {o.padding.z, 0}});
  const std::int64_t layers = y.values.dim(1);
  const std::vector<std::int64_t> dims{n, layers, height, width, channels};
  if (y.values.value().numel() == 0) return {reshape(y.values, dims), reshape(y.indices, dims)};
  // y.indices are positions in (depth, windows); planes.indices map such a position to a pixel of its plane.
  const Variable at = reshape(y.indices, {n, layers * windows, channels});
  const Variable pixel = gather(reshape(planes.indices, {n, depth * windows, channels}), 1, at);
  const Variable layer = quotient(at, windows);
  return {reshape(y.values, dims), reshape(layer * pixels + pixel, dims)};
}

Variable max_unpool1d(const Variable& x, const Variable& indices, const Pool1dOptions& o, std::int64_t size) {
  constexpr const char* kName = "max_unpool1d";
  check_rank(kName, x, 3);
  check_stride(kName, o.stride, o.kernel, o.padding);
  const std::int64_t stride = o.stride == 0 ? o.kernel : o.stride;
  return unpooled(kName, x, indices, {size != 0 ? size : unpooled_extent(x.dim(1), o.kernel, stride, o.padding)});
}

Variable max_unpool2d(const Variable& x, const Variable& indices, const PoolOptions& o, Extent2 size) {
  constexpr const char* kName = "max_unpool2d";
  check_rank(kName, x, 4);
  check_stride(kName, o.stride.y, o.kernel.y, o.padding.y);
  check_stride(kName, o.stride.x, o.kernel.x, o.padding.x);
  const Extent2 stride = o.resolved_stride();
  return unpooled(kName, x, indices,
                  {size.y != 0 ? size.y : unpooled_extent(x.dim(1), o.kernel.y, stride.y, o.padding.y),
                   size.x != 0 ? size.x : unpooled_extent(x.dim(2), o.kernel.x, stride.x, o.padding.x)});
}

Variable max_unpool3d(const Variable& x, const Variable& indices, const Pool3dOptions& o, Extent3 size) {
  constexpr const char* kName = "max_unpool3d";
  check_rank(kName, x, 5);
  check_stride(kName, o.stride.z, o.kernel.z, o.padding.z);
  check_stride(kName, o.stride.y, o.kernel.y, o.padding.y);
  check_stride(kName, o.stride.x, o.kernel.x, o.padding.x);
  const Extent3 stride = o.stride == Extent3(0) ? o.kernel : o.stride;
  return unpooled(kName, x, indices,
                  {size.z != 0 ? size.z : unpooled_extent(x.dim(1), o.kernel.z, stride.z, o.padding.z),
                   size.y != 0 ? size.y : unpooled_extent(x.dim(2), o.kernel.y, stride.y, o.padding.y),
                   size.x != 0 ? size.x : unpooled_extent(x.dim(3), o.kernel.x, stride.x, o.padding.x)});
}

namespace {

/// (sum of |x|^p over each window)^(1 / p). `average`: average pooling of `count` positions; `largest`: max pooling.
template <class Pool, class Largest>
Variable lp_pooled(const char* name, const Variable& x, double p, double count, Pool&& average, Largest&& largest) {
  check<ArgumentError>(p > 0, "{}: wanted p > 0, got {}", where(name), p);
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted x of a floating dtype, got {}", where(name),
                    name_of(x.dtype()));
  const Variable magnitude = abs(cast(x, accumulate_dtype(x.dtype())));
  if (std::isinf(p)) return cast(largest(magnitude), x.dtype());
  const Variable total = average(pow(magnitude, p)) * count;
  // The root of a sum of 0 has an infinite slope. 1 is added to it and subtracted again, so that the gradient is 0.
  const Variable zero = cast(total == 0, total.dtype()).detach();
  return cast(pow(total + zero, 1 / p) - zero, x.dtype());
}

}  // namespace

Variable lp_pool1d(const Variable& x, double p, const Pool1dOptions& options) {
  Pool1dOptions o = options;
  o.count_include_pad = true;
  return lp_pooled(
      "lp_pool1d", x, p, static_cast<double>(o.kernel), [&](const Variable& v) { return avg_pool1d(v, o); },
      [&](const Variable& v) { return max_pool1d(v, o); });
}
Variable lp_pool2d(const Variable& x, double p, const PoolOptions& options) {
  PoolOptions o = options;
  o.count_include_pad = true;
  return lp_pooled(
      "lp_pool2d", x, p, static_cast<double>(o.kernel.y) * static_cast<double>(o.kernel.x),
      [&](const Variable& v) { return avg_pool2d(v, o); }, [&](const Variable& v) { return max_pool2d(v, o); });
}
Variable lp_pool3d(const Variable& x, double p, const Pool3dOptions& options) {
  Pool3dOptions o = options;
  o.count_include_pad = true;
  return lp_pooled(
      "lp_pool3d", x, p,
      static_cast<double>(o.kernel.z) * static_cast<double>(o.kernel.y) * static_cast<double>(o.kernel.x),
      [&](const Variable& v) { return avg_pool3d(v, o); }, [&](const Variable& v) { return max_pool3d(v, o); });
}

}  // namespace binade
