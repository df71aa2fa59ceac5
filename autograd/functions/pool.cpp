#include "binade/autograd/functions/pool.h"

#include "binade/autograd/apply.h"
#include "binade/core/ops/avg_pool2d.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/core/step_context.h"

namespace binade {

Variable max_pool2d(const Variable& x, const PoolOptions& options) {
  return apply_one<ops::MaxPool2d>(
      {.kernel = options.kernel, .stride = options.resolved_stride(), .padding = options.padding}, {x});
}

Variable avg_pool2d(const Variable& x, const PoolOptions& options) {
  return apply_one<ops::AvgPool2d>({.kernel = options.kernel,
                                    .stride = options.resolved_stride(),
                                    .padding = options.padding,
                                    .count_include_pad = options.count_include_pad},
                                   {x});
}

Variable upsample_to(const Variable& x, std::int64_t height, std::int64_t width, UpsampleMode mode) {
  return apply_one<ops::Upsample>({.out_height = height, .out_width = width, .mode = mode}, {x});
}

Variable upsample(const Variable& x, std::int64_t factor, UpsampleMode mode) {
  check<ShapeError>(x.value().rank() == 4 && factor >= 1 && factor <= ops::kMaxExtent && x.dim(1) <= ops::kMaxExtent &&
                        x.dim(2) <= ops::kMaxExtent,
                    "{}: wanted x of shape (N, H, W, C) and a factor from 1 to 2^30, got {} and {}",
                    where(ops::Upsample::info.name), x.shape(), factor);
  return upsample_to(x, x.dim(1) * factor, x.dim(2) * factor, mode);
}

}  // namespace binade
