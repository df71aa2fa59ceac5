#include <algorithm>
#include <cmath>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/sampling.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

constexpr const char* kName = "interpolate";

/// For each spatial axis of x: the extent of the result, and the step as in UpsampleParams.
struct Target {
  std::vector<std::int64_t> extents;
  std::vector<double> steps;

  Target(const Variable& x, const InterpolateOptions& o) {
    const auto axes = static_cast<std::size_t>(x.value().rank() - 2);
    const std::size_t given = o.size.empty() ? o.scale_factor.size() : o.size.size();
    check<ArgumentError>(o.size.empty() != o.scale_factor.empty(), "{}: wanted either size or scale_factor",
                         where(kName));
    check<ArgumentError>(given == 1 || given == axes,
                         "{}: wanted 1 or {} numbers of size or scale_factor for x {}, got {}", where(kName), axes,
                         x.shape(), given);
    for (std::size_t i = 0; i < axes; ++i) {
      const std::size_t at = given == 1 ? 0 : i;
      const std::int64_t extent = x.dim(static_cast<int>(i) + 1);
      check<ShapeError>(extent >= 1 && extent <= ops::kMaxExtent, "{}: wanted extents from 1 to 2^30, got {}",
                        where(kName), x.shape());
      if (!o.size.empty()) {
        extents.push_back(o.size[at]);
        steps.push_back(0);
      } else {
        const double factor = o.scale_factor[at], wanted = std::floor(static_cast<double>(extent) * factor);
        check<ArgumentError>(factor > 0 && factor <= 0x1p30 && wanted >= 1 && wanted <= 0x1p30,
                             "{}: wanted a scale_factor that gives 1 to 2^30 positions, got {} for {}", where(kName),
                             factor, x.shape());
        extents.push_back(static_cast<std::int64_t>(wanted));
        // A step of 0 stands for the ratio of the extents, which is exact. It serves if that ratio is 1 / factor.
        steps.push_back(wanted == static_cast<double>(extent) * factor ? 0 : 1 / factor);
      }
      check<ArgumentError>(extents.back() >= 1 && extents.back() <= ops::kMaxExtent,
                           "{}: wanted a size from 1 to 2^30, got {}", where(kName), extents.back());
    }
  }
};

/// Resizes images to height t.extents[rows] and width t.extents[cols]; -1 keeps the height or width.
Variable resized(const Variable& images, const InterpolateOptions& o, const Target& t, int rows, int cols) {
  ops::UpsampleParams p{.mode = o.mode, .align_corners = o.align_corners, .antialias = o.antialias};
  const auto set = [&](int axis, int at, std::int64_t& extent, double& step) {
    extent = at < 0 ? images.dim(axis) : t.extents[static_cast<std::size_t>(at)];
    step = at < 0 || o.mode == UpsampleMode::kArea ? 0 : t.steps[static_cast<std::size_t>(at)];
  };
  set(1, rows, p.out_height, p.step_y);
  set(2, cols, p.out_width, p.step_x);
  return o.mode == UpsampleMode::kBicubic ? apply_one<ops::UpsampleBicubic>(p, {images})
                                          : apply_one<ops::Upsample>(p, {images});
}

}  // namespace

Variable interpolate(const Variable& x, const InterpolateOptions& o) {
  const int rank = x.value().rank();
  check<ShapeError>(rank >= 3 && rank <= 5,
                    "{}: wanted sequences (N, L, C), images (N, H, W, C) or volumes (N, D, H, W, C), got {}",
                    where(kName), x.shape());
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted x of a floating dtype, got {}", where(kName),
                    name_of(x.dtype()));
  check<ArgumentError>(rank == 4 || (o.mode != UpsampleMode::kBicubic && !o.antialias),
                       "{}: kBicubic and antialias are for images (N, H, W, C), got {}", where(kName), x.shape());
  const bool interpolates = o.mode == UpsampleMode::kBilinear || o.mode == UpsampleMode::kBicubic;
  check<ArgumentError>(interpolates || !(o.align_corners || o.antialias),
                       "{}: align_corners and antialias are options of linear and cubic interpolation only",
                       where(kName));
  const Target t(x, o);
  if (rank == 4) return resized(x, o, t, 0, 1);
  if (rank == 3) {
    const Variable y = resized(reshape(x, {x.dim(0), 1, x.dim(1), x.dim(2)}), o, t, -1, 0);
    return reshape(y, {y.dim(0), y.dim(2), y.dim(3)});
  }
  const std::int64_t n = x.dim(0), depth = x.dim(1), channels = x.dim(4);
  check<ShapeError>(n <= ops::kMaxExtent, "{}: wanted at most 2^30 volumes, got {}", where(kName), x.shape());
  const Variable wide = is_half(x.dtype()) ? cast(x, DType::f32) : x;  // so that values are rounded once
  const Variable planes = resized(reshape(wide, {n * depth, x.dim(2), x.dim(3), channels}), o, t, 1, 2);
  const std::int64_t height = planes.dim(1), width = planes.dim(2);
  const Variable y = resized(reshape(planes, {n, depth, height * width, channels}), o, t, 0, -1);
  return cast(reshape(y, {n, y.dim(1), height, width, channels}), x.dtype());
}

}  // namespace binade
