#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

using Pool2d = Variable (*)(const Variable&, const PoolOptions&);

Variable pooled(const char* name, const Variable& x, const Pool3dOptions& o, Pool2d pool) {
  check<ShapeError>(x.value().rank() == 5, "{}: wanted volumes (N, D, H, W, C), got {}", where(name), x.shape());
  const Extent3 stride = o.stride == Extent3(0) ? o.kernel : o.stride;
  check<ArgumentError>(
      o.kernel.z > 0 && stride.z > 0 && stride.y > 0 && stride.x > 0 && o.padding.z >= 0,
      "{}: wanted a kernel and a stride above 0 in each direction (stride 0 in all: the kernel) and no "
      "negative padding, got kernel {}, stride {} and padding {}",
      where(name), o.kernel, o.stride, o.padding);
  check<ShapeError>(x.dim(1) + 2 * o.padding.z >= o.kernel.z,
                    "{}: wanted volumes at least as deep as the kernel, got x {} with kernel {} and padding {}",
                    where(name), x.shape(), o.kernel, o.padding);
  const std::int64_t n = x.dim(0), depth = x.dim(1), channels = x.dim(4);
  const Variable planes = pool(reshape(x, {n * depth, x.dim(2), x.dim(3), channels}),
                               {.kernel = o.kernel.plane(),
                                .stride = stride.plane(),
                                .padding = o.padding.plane(),
                                .count_include_pad = o.count_include_pad});
  const std::int64_t height = planes.dim(1), width = planes.dim(2);
  const Variable y = pool(reshape(planes, {n, depth, 1, height * width * channels}),
                          {.kernel = {o.kernel.z, 1},
                           .stride = {stride.z, 1},
                           .padding = {o.padding.z, 0},
                           .count_include_pad = o.count_include_pad});
  return reshape(y, {n, y.dim(1), height, width, channels});
}

}  // namespace

Variable max_pool3d(const Variable& x, const Pool3dOptions& o) { return pooled("max_pool3d", x, o, max_pool2d); }

Variable avg_pool3d(const Variable& x, const Pool3dOptions& o) {
  const Variable wide = is_half(x.dtype()) ? cast(x, DType::f32) : x;  // so that averages are rounded once
  return cast(pooled("avg_pool3d", wide, o, avg_pool2d), x.dtype());
}

}  // namespace binade
