#include <algorithm>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/math.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/sampling.h"
#include "binade/autograd/functions/scan.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/ops/sampling.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

/// Returns 0, 1, …, n - 1. The device computes them, because a captured step cannot copy from the host.
Variable positions(std::int64_t n, DType dtype, Device device) {
  return cast(cumsum(Tensor::full(Shape{n}, 1, DType::i64, device), 0) - 1, dtype);
}

/// The k pixels (taps) along one axis between which each of the points (B, P) is interpolated. `valid` is 1 if the
/// index is inside the image, else 0.
struct AxisTaps {
  Variable index, valid;  // (B, P, k), i64
  Variable weight;        // (B, P, k)
};

/// One axis of the image.
class SampledAxis {
 public:
  SampledAxis(std::int64_t extent, const GridSampleOptions& o) : extent_(extent), options_(o) {}

  AxisTaps taps(const Variable& coordinate) const {
    const auto n = static_cast<double>(extent_);
    const Variable u = options_.align_corners ? (coordinate + 1) * ((n - 1) / 2) : ((coordinate + 1) * n - 1) * 0.5;
    switch (options_.mode) {
      case GridSampleMode::kNearest: {
        const Variable inside = padded(u);
        return joined({round(inside.detach())}, {inside * 0 + 1});  // NaN for NaN; the slope is 0
      }
      case GridSampleMode::kBicubic: return cubic(u);
      default: break;
    }
    const Variable inside = padded(u), low = floor(inside.detach()), f = inside - low;
    return joined({low, low + 1}, {1 - f, f});
  }

 private:
  /// Moves positions outside of the image into it, according to the padding. The slope is 0 if the result is an edge.
  Variable padded(const Variable& u) const {
    if (options_.padding == GridSamplePadding::kZeros) return u;
    const auto last = static_cast<double>(extent_ - 1);
    const Variable at = options_.padding == GridSamplePadding::kReflection ? reflected(u) : u;
    return where(logical_and(at > 0, at < last), at, clamp(at.detach(), 0, last));
  }
  /// Reflects positions at the centers (align_corners) or the outer edges of the outermost pixels.
  Variable reflected(const Variable& u) const {
    const double low = options_.align_corners ? 0 : -0.5;
    const double span = static_cast<double>(extent_) - (options_.align_corners ? 1 : 0);
    if (span <= 0) return u * 0;
    const Variable distance = abs(u - low), turns = floor(distance.detach() / span);
    const Variable odd = turns - floor(turns * 0.5) * 2, rest = distance - turns * span;
    return rest * (1 - odd * 2) + odd * span + low;
  }

  AxisTaps cubic(const Variable& u) const {
    const Variable low = floor(u.detach()), t = u - low, s = 1 - t;
    constexpr double a = -0.75;
    const auto near = [](const Variable& x) { return ((x * (a + 2)) - (a + 3)) * x * x + 1; };
    const auto far = [](const Variable& x) { return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a; };
    return joined({padded(low - 1), padded(low), padded(low + 1), padded(low + 2)},
                  {far(t + 1), near(t), near(s), far(s + 1)});
  }

  AxisTaps joined(std::initializer_list<Variable> positions, std::initializer_list<Variable> weights) const {
    // A position of NaN counts as inside, so that its weight, which is NaN, reaches the result.
    const Variable at = round(stack(positions, -1)).detach();
    const auto last = static_cast<double>(extent_ - 1);
    const Variable outside = cast(logical_or(at<0, at> last), DType::i64);
    return {cast(clamp(nan_to_num(at), 0, last), DType::i64), 1 - outside, stack(weights, -1)};
  }

  std::int64_t extent_;
  GridSampleOptions options_;
};

/// Combines each tap of an axis with each tap of the next inner axis, which has `extent` positions.
AxisTaps crossed(const AxisTaps& outer, const AxisTaps& inner, std::int64_t extent) {
  const std::int64_t b = outer.index.dim(0), p = outer.index.dim(1), k = outer.index.dim(2) * inner.index.dim(2);
  const auto every = [&](const Variable& x) { return unsqueeze(x, 3); };
  const auto each = [&](const Variable& x) { return unsqueeze(x, 2); };
  return {reshape(every(outer.index) * extent + each(inner.index), {b, p, k}),
          reshape(every(outer.valid) * each(inner.valid), {b, p, k}),
          reshape(every(outer.weight) * each(inner.weight), {b, p, k})};
}

}  // namespace

Variable grid_sample(const Variable& x, const Variable& grid, const GridSampleOptions& o) {
  constexpr const char* kName = "grid_sample";
  const int rank = x.value().rank(), axes = rank - 2;
  check<ShapeError>(
      (rank == 4 || rank == 5) && grid.value().rank() == rank && grid.dim(0) == x.dim(0) && grid.dim(-1) == axes,
      "{}: wanted images (N, H, W, C) and a grid (N, OH, OW, 2), or volumes (N, D, H, W, C) and a grid (N, "
      "OD, OH, OW, 3), got {} and {}",
      where(kName), x.shape(), grid.shape());
  check<DTypeError>(is_floating(x.dtype()) && is_floating(grid.dtype()),
                    "{}: wanted x and grid of floating dtypes, got {} and {}", where(kName), name_of(x.dtype()),
                    name_of(grid.dtype()));
  check<ArgumentError>(rank == 4 || o.mode != GridSampleMode::kBicubic,
                       "{}: kBicubic is for images (N, H, W, C), got {}", where(kName), x.shape());
  std::vector<std::int64_t> dims(grid.shape().dims().begin(), grid.shape().dims().end());
  dims.back() = x.dim(-1);
  std::int64_t pixels = 1, points = 1;
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // positions of an image or of a grid
  for (int d = 1; d <= axes; ++d) {
    const std::int64_t own = x.dim(d), wanted = grid.dim(d);
    check<ShapeError>(own >= 1 && own <= kMost / pixels && (wanted == 0 || points <= kMost / wanted),
                      "{}: wanted images with pixels and at most 2^40 pixels and positions, got {} and {}",
                      where(kName), x.shape(), grid.shape());
    pixels *= own;
    points *= wanted;
  }
  const Variable wide = cast(grid, accumulate_dtype(grid.dtype()));
  const Variable at = reshape(wide, {grid.dim(0), points, static_cast<std::int64_t>(axes)});
  AxisTaps taps;
  for (int d = 1; d <= axes; ++d) {  // the last coordinate belongs to the first axis
    const AxisTaps own = SampledAxis(x.dim(d), o).taps(select(at, 2, axes - d));
    taps = d == 1 ? own : crossed(taps, own, x.dim(d));
  }
  const Variable index = (taps.index + 1) * taps.valid - 1;  // -1 outside of the image
  const Variable rows = reshape(x, {x.dim(0), pixels, x.dim(-1)});
  return reshape(apply_one<ops::WeightedGather>({}, {rows, taps.weight, index}), dims);
}

Variable affine_grid(const Variable& theta, const std::vector<std::int64_t>& size, bool align_corners) {
  constexpr const char* kName = "affine_grid";
  const auto axes = static_cast<std::int64_t>(size.size());
  check<ShapeError>((axes == 2 || axes == 3) && theta.value().rank() == 3 && theta.dim(1) == axes &&
                        theta.dim(2) == axes + 1,
                    "{}: wanted theta (N, 2, 3) and a size {{H, W}}, or theta (N, 3, 4) and a size {{D, H, W}}, got {} "
                    "and {} numbers",
                    where(kName), theta.shape(), axes);
  check<DTypeError>(is_floating(theta.dtype()), "{}: wanted theta of a floating dtype, got {}", where(kName),
                    name_of(theta.dtype()));
  for (const std::int64_t extent : size)
    check<ShapeError>(extent >= 1 && extent <= ops::kMaxExtent, "{}: wanted a size from 1 to 2^30, got {}",
                      where(kName), extent);
  const std::int64_t n = theta.dim(0);
  const Variable wide = cast(theta, accumulate_dtype(theta.dtype()));
  std::vector<std::int64_t> dims(static_cast<std::size_t>(axes) + 2, 1);
  dims.front() = n;
  dims.back() = axes;
  Variable grid = reshape(narrow(wide, 2, axes, 1), dims);  // (N, 1, 1, 2)
  for (std::int64_t d = 0; d < axes; ++d) {                 // coordinate 0 (x) belongs to the last spatial axis
    const auto axis = static_cast<std::size_t>(axes - 1 - d);
    const auto extent = static_cast<double>(size[axis]);
    const Variable i = positions(size[axis], wide.dtype(), wide.device());
    const Variable at = !align_corners ? (i * 2 + 1) * (1 / extent) - 1 : extent > 1 ? i * (2 / (extent - 1)) - 1 : i;
    std::vector<std::int64_t> line(dims.size(), 1);
    line[axis + 1] = size[axis];
    grid = grid + reshape(narrow(wide, 2, d, 1), dims) * reshape(at, line);
  }
  return grid;
}

}  // namespace binade
