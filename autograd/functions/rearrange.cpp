#include "binade/autograd/functions/rearrange.h"

#include <fmt/format.h>

#include <algorithm>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/kernels/table.h"
#include "binade/core/ops/index.h"
#include "binade/core/ops/rearrange.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 40;  // largest number of positions to add or repeat

std::vector<std::int64_t> dims_of(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }
int rank_of(const Variable& x) { return x.value().rank(); }

Variable rearranged(const char* name, const Variable& x, int axis, const AxisMap& map, std::int64_t count,
                    double fill = 0, bool adjoint = false) {
  return apply_one<ops::Rearrange>(
      {.axis = axis, .map = map, .count = count, .adjoint = adjoint, .fill = fill, .name = name}, {x});
}

/// Repeats an axis as a whole, or with `together` each of its positions. The new axis is then merged with the axis.
Variable repeated(const char* name, const Variable& x, int axis, std::int64_t times, bool together) {
  check<ArgumentError>(times >= 0 && times <= kMost, "{}: wanted 0 to {} repetitions, got {}", where(name), kMost,
                       times);
  if (times == 1) return x;
  const Shape& shape = x.shape();
  const std::int64_t extent = shape[axis];
  check<ShapeError>(times == 0 || extent <= kMost / times, "{}: wanted at most {} positions, got {} times {}",
                    where(name), kMost, times, extent);
  if (shape.numel() == 0) return reshape(x, dims_of(shape.with_dim(axis, extent * times)));
  const ops::AxisView v(shape, axis);
  const auto at = [&](std::int64_t r) {
    return together ? std::vector{v.outer, extent, r, v.inner} : std::vector{v.outer, r, extent, v.inner};
  };
  return reshape(expand(reshape(x, at(1)), at(times)), dims_of(shape.with_dim(axis, extent * times)));
}

}  // namespace

Variable flip(const Variable& x, const std::vector<int>& axes) {
  Variable y = x;
  std::vector<int> seen;
  const int rank = rank_of(x);
  for (const int axis : axes) {
    const int at = ops::checked_axis("flip", axis, rank);
    check<ArgumentError>(std::ranges::count(seen, at) == 0, "{}: wanted different axes, got {} twice", where("flip"),
                         axis);
    seen.push_back(at);
    const std::int64_t extent = x.dim(at);
    y = rearranged("flip", y, at, {.begin = extent - 1, .step = -1, .extent = extent}, extent);
  }
  return y;
}

Variable roll(const Variable& x, const std::vector<std::int64_t>& shifts, const std::vector<int>& axes) {
  check<ArgumentError>(shifts.size() == (axes.empty() ? 1 : axes.size()),
                       "{}: wanted a shift for each axis (one without axes), got {} shifts and {} axes", where("roll"),
                       shifts.size(), axes.size());
  if (axes.empty()) return reshape(roll(reshape(x, {x.value().numel()}), shifts, {0}), dims_of(x.shape()));
  Variable y = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = ops::checked_axis("roll", axes[i], rank_of(x));
    const std::int64_t extent = x.dim(axis);
    if (extent == 0) continue;
    const std::int64_t shift = shifts[i] % extent, begin = shift > 0 ? extent - shift : -shift;
    y = rearranged("roll", y, axis, {.begin = begin, .extent = extent, .beyond = OutOfRangeRule::kWrap}, extent);
  }
  return y;
}

Variable rot90(const Variable& x, int k, int first, int second) {
  const int a = ops::checked_axis("rot90", first, rank_of(x)), b = ops::checked_axis("rot90", second, rank_of(x));
  check<ArgumentError>(a != b, "{}: wanted two different axes, got {} twice", where("rot90"), a);
  switch ((k % 4 + 4) % 4) {
    case 1: return transpose(flip(x, {b}), a, b);
    case 2: return flip(x, {a, b});
    case 3: return transpose(flip(x, {a}), a, b);
    default: return x;
  }
}

Variable slice(const Variable& x, int axis, std::int64_t begin, std::int64_t end, std::int64_t step) {
  const int at = ops::checked_axis("slice", axis, rank_of(x));
  check<ArgumentError>(step > 0, "{}: wanted a step above 0, got {}; flip() reverses an axis", where("slice"), step);
  if (step == 1) return slice(x, at, begin, end);
  const std::int64_t extent = x.dim(at), first = begin < 0 ? begin + extent : begin,
                     last = end < 0 ? end + extent : end;
  check<ShapeError>(first >= 0 && first <= last && last <= extent,
                    "{}: wanted a range inside dimension {} of {}, got {} to {}", where("slice"), axis, x.shape(),
                    begin, end);
  const std::int64_t count = first == last ? 0 : (last - first - 1) / step + 1;
  return rearranged("slice", x, at, {.begin = first, .step = count > 1 ? step : 1, .extent = extent}, count);
}

Variable select(const Variable& x, int axis, std::int64_t i) {
  const int at = ops::checked_axis("select", axis, rank_of(x));
  const std::int64_t extent = x.dim(at);
  check<ArgumentError>(i >= -extent && i < extent, "{}: wanted a position in [{}, {}) of axis {}, got {}",
                       where("select"), -extent, extent, axis, i);
  return squeeze(narrow(x, at, i < 0 ? i + extent : i, 1), at);
}

Variable repeat(const Variable& x, const std::vector<std::int64_t>& repeats) {
  check<ArgumentError>(static_cast<int>(repeats.size()) >= rank_of(x),
                       "{}: wanted a number for each axis of {}, got {}", where("repeat"), x.shape(), repeats.size());
  std::vector<std::int64_t> dims(repeats.size() - static_cast<std::size_t>(rank_of(x)), 1);
  const std::vector<std::int64_t> own = dims_of(x.shape());
  dims.insert(dims.end(), own.begin(), own.end());
  Variable y = reshape(x, dims);
  for (std::size_t d = 0; d < repeats.size(); ++d) y = repeated("repeat", y, static_cast<int>(d), repeats[d], false);
  return y;
}

Variable tile(const Variable& x, const std::vector<std::int64_t>& repeats) {
  std::vector<std::int64_t> all(repeats);
  if (const auto rank = static_cast<std::size_t>(rank_of(x)); all.size() < rank)
    all.insert(all.begin(), rank - all.size(), 1);
  return repeat(x, all);
}

Variable repeat_interleave(const Variable& x, std::int64_t repeats, int axis) {
  return repeated("repeat_interleave", x, ops::checked_axis("repeat_interleave", axis, rank_of(x)), repeats, true);
}

Variable repeat_interleave(const Variable& x, const Variable& repeats, int axis) {
  constexpr const char* kName = "repeat_interleave";
  const int at = ops::checked_axis(kName, axis, rank_of(x));
  check<ShapeError>(repeats.value().rank() == 1 && repeats.dim(0) == x.dim(at) &&
                        (repeats.dtype() == DType::i64 || repeats.dtype() == DType::i32),
                    "{}: wanted {} numbers of i64 or i32, one for each position of axis {}, got {} of shape {}",
                    where(kName), x.dim(at), axis, name_of(repeats.dtype()), repeats.shape());
  const std::vector<std::int64_t> times = repeats.value().to_vector<std::int64_t>();
  std::int64_t total = 0;
  for (std::size_t j = 0; j < times.size(); ++j) {
    check<DataError>(times[j] >= 0 && times[j] <= kMost && total <= kMost,
                     "{}: wanted 0 to {} repetitions, got {} at position {}", where(kName), kMost, times[j], j);
    total += times[j];
  }
  Tensor positions = Tensor::empty(Shape{total}, DType::i64);
  auto* to = positions.mutable_data<std::int64_t>();
  for (std::size_t j = 0; j < times.size(); ++j) to = std::fill_n(to, times[j], static_cast<std::int64_t>(j));
  return apply_one<ops::IndexSelect>({.axis = at, .name = kName}, {x, positions.to(x.device())});
}

Variable pad(const Variable& x, const std::vector<std::int64_t>& padding, PadMode mode, double value) {
  const int rank = rank_of(x);
  check<ArgumentError>(padding.size() % 2 == 0 && static_cast<int>(padding.size() / 2) <= rank,
                       "{}: wanted two numbers for each padded axis of {}, got {} numbers", where("pad"), x.shape(),
                       padding.size());
  Variable y = x;
  for (std::size_t p = 0; p < padding.size(); p += 2) {
    const int axis = rank - 1 - static_cast<int>(p / 2);
    const std::int64_t before = padding[p], after = padding[p + 1], extent = y.dim(axis);
    if (before == 0 && after == 0) continue;
    check<ArgumentError>(
        std::max(before, after) <= kMost && std::min(before, after) >= -kMost && extent + before + after >= 0,
        "{}: wanted paddings of at most {} that leave an extent of 0 or more, got {} and {} for axis {} "
        "of {}",
        where("pad"), kMost, before, after, axis, x.shape());
    AxisMap map{.begin = -before, .extent = extent};
    if (mode == PadMode::kReflect) {
      check<ArgumentError>(before < extent && after < extent,
                           "{}: reflecting wants paddings below the extent {} of axis {}, got {} and {}", where("pad"),
                           extent, axis, before, after);
      map.beyond = OutOfRangeRule::kReflect;
    } else if (mode != PadMode::kConstant) {
      check<ArgumentError>(extent > 0, "{}: wanted elements to repeat along axis {} of {}", where("pad"), axis,
                           x.shape());
      map.beyond = mode == PadMode::kReplicate ? OutOfRangeRule::kClamp : OutOfRangeRule::kWrap;
    }
    y = rearranged("pad", y, axis, map, extent + before + after, value);
  }
  return y;
}

Variable unfold(const Variable& x, int axis, std::int64_t size, std::int64_t step) {
  const int at = ops::checked_axis("unfold", axis, rank_of(x));
  const std::int64_t extent = x.dim(at);
  check<ArgumentError>(size > 0 && size <= extent && step > 0,
                       "{}: wanted windows of 1 to {} positions and a step above 0, got {} and {}", where("unfold"),
                       extent, size, step);
  const std::int64_t windows = (extent - size) / step + 1;
  check<ShapeError>(windows <= kMost && size <= kMost / windows,
                    "{}: wanted at most {} positions in all windows, got {} of {}", where("unfold"), kMost, windows,
                    size);
  const AxisMap map{.step = windows > 1 ? step : 1, .window = size, .inside = 1, .extent = extent};
  Variable y = unflatten(rearranged("unfold", x, at, map, windows * size), at, {windows, size});
  return movedim(y, {at + 1}, {-1});
}

namespace {

/// The windows of one axis of an image.
struct AxisWindows {
  AxisMap map{};
  std::int64_t count = 0, size = 0;

  AxisWindows(const char* name, std::int64_t extent, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
              std::int64_t dilation) {
    constexpr std::int64_t kLargest = ops::kMaxExtent;
    check<ArgumentError>(kernel > 0 && kernel <= kLargest && stride > 0 && stride <= kLargest && dilation > 0 &&
                             dilation <= kLargest && padding >= 0 && padding <= kLargest && extent <= kLargest,
                         "{}: wanted kernel, stride and dilation in [1, {}] and padding in [0, {}], got {}, {}, {} and "
                         "{} for an extent of {}",
                         where(name), kLargest, kLargest, kernel, stride, dilation, padding, extent);
    const std::int64_t reach = dilation * (kernel - 1) + 1;
    check<ShapeError>(reach <= extent + 2 * padding, "{}: a window of {} positions does not fit in {} with padding {}",
                      where(name), reach, extent, padding);
    count = (extent + 2 * padding - reach) / stride + 1;
    size = kernel;
    map = {.begin = -padding, .step = stride, .window = kernel, .inside = dilation, .extent = extent};
    if (kernel == 1) map = {.begin = -padding, .step = stride, .extent = extent};
  }

  /// True if window i is position i of the axis, so that nothing has to be copied.
  bool identity() const { return map == AxisMap{.extent = map.extent} && size == 1 && count == map.extent; }
};

}  // namespace

Variable unfold2d(const Variable& x, const UnfoldOptions& o) {
  constexpr const char* kName = "unfold2d";
  check<ShapeError>(rank_of(x) == 4, "{}: wanted images (N, H, W, C), got {}", where(kName), x.shape());
  const AxisWindows h(kName, x.dim(1), o.kernel.y, o.stride.y, o.padding.y, o.dilation.y),
      w(kName, x.dim(2), o.kernel.x, o.stride.x, o.padding.x, o.dilation.x);
  const std::int64_t n = x.dim(0), c = x.dim(3);
  Variable y = rearranged(kName, x, 1, h.map, h.count * h.size);
  if (!w.identity()) y = rearranged(kName, y, 2, w.map, w.count * w.size);
  y = permute(reshape(y, {n, h.count, h.size, w.count, w.size, c}), {0, 1, 3, 2, 4, 5});
  return reshape(y, {n, h.count * w.count, h.size * w.size * c});
}

Variable fold2d(const Variable& x, Extent2 size, const UnfoldOptions& o) {
  constexpr const char* kName = "fold2d";
  check<ArgumentError>(size.y >= 0 && size.x >= 0, "{}: wanted an image size of 0 or more, got {}", where(kName), size);
  const AxisWindows h(kName, size.y, o.kernel.y, o.stride.y, o.padding.y, o.dilation.y),
      w(kName, size.x, o.kernel.x, o.stride.x, o.padding.x, o.dilation.x);
  const std::int64_t window = h.size * w.size;
  check<ShapeError>(rank_of(x) == 3 && x.dim(1) == h.count * w.count && x.dim(2) % window == 0,
                    "{}: wanted (N, {}, a multiple of {}), got {}", where(kName), h.count * w.count, window, x.shape());
  const std::int64_t n = x.dim(0), c = x.dim(2) / window;
  Variable y = permute(reshape(x, {n, h.count, w.count, h.size, w.size, c}), {0, 1, 3, 2, 4, 5});
  y = reshape(y, {n, h.count * h.size, w.count * w.size, c});
  if (!w.identity()) y = rearranged(kName, y, 2, w.map, w.count * w.size, 0, true);
  return rearranged(kName, y, 1, h.map, h.count * h.size, 0, true);
}

namespace {

/// The positions of a diagonal in a plane (height, width) that is flattened to one axis.
AxisMap diagonal_map(std::int64_t offset, std::int64_t height, std::int64_t width, std::int64_t count) {
  return {.begin = count == 0    ? 0
                   : offset >= 0 ? offset
                                 : -offset * width,
          .step = width + 1,
          .extent = height * width};
}
void check_offset(const char* name, std::int64_t offset) {
  check<ArgumentError>(offset >= -ops::kMaxExtent && offset <= ops::kMaxExtent,
                       "{}: wanted an offset of at most {} on either side, got {}", where(name), ops::kMaxExtent,
                       offset);
}

}  // namespace

Variable diagonal(const Variable& x, std::int64_t offset, int first, int second) {
  const int a = ops::checked_axis("diagonal", first, rank_of(x)), b = ops::checked_axis("diagonal", second, rank_of(x));
  check<ArgumentError>(a != b, "{}: wanted two different axes, got {} twice", where("diagonal"), a);
  check_offset("diagonal", offset);
  const std::int64_t height = x.dim(a), width = x.dim(b);
  check<ShapeError>(height <= ops::kMaxExtent && width <= ops::kMaxExtent, "{}: wanted extents of at most {}, got {}",
                    where("diagonal"), ops::kMaxExtent, x.shape());
  const std::int64_t count = std::max<std::int64_t>(0, offset >= 0 ? std::min(height, width - offset)
                                                                   : std::min(height + offset, width));
  const Variable y = flatten(movedim(x, {a, b}, {-2, -1}), -2, -1);
  return rearranged("diagonal", y, -1, diagonal_map(offset, height, width, count), count);
}

Variable diag_embed(const Variable& x, std::int64_t offset, int first, int second) {
  const int rank = rank_of(x) + 1;
  check<ShapeError>(rank >= 2 && rank <= Shape::kMaxRank, "{}: wanted a rank of 1 to {}, got {}", where("diag_embed"),
                    Shape::kMaxRank - 1, x.shape());
  const int a = ops::checked_axis("diag_embed", first, rank), b = ops::checked_axis("diag_embed", second, rank);
  check<ArgumentError>(a != b, "{}: wanted two different axes, got {} twice", where("diag_embed"), a);
  check_offset("diag_embed", offset);
  const std::int64_t count = x.shape().cols();
  check<ShapeError>(count <= ops::kMaxExtent, "{}: wanted at most {} elements of a diagonal, got {}",
                    where("diag_embed"), ops::kMaxExtent, x.shape());
  const std::int64_t side = count + std::abs(offset);
  const Variable y = rearranged("diag_embed", x, -1, diagonal_map(offset, side, side, count), count, 0, true);
  return movedim(unflatten(y, -1, {side, side}), {-2, -1}, {a, b});
}

Variable expand(const Variable& x, std::vector<std::int64_t> dims) {
  return apply_one<ops::Expand>({.dims = std::move(dims)}, {x});
}

Variable broadcast_to(const Variable& x, std::vector<std::int64_t> dims) { return expand(x, std::move(dims)); }

}  // namespace binade
