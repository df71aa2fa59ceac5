#pragma once

#include "binade/autograd/apply.h"
#include "binade/core/ops/avg_pool2d.h"
#include "binade/core/ops/extent2.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/core/ops/upsample.h"
#include "binade/core/step_context.h"

namespace binade {

using ops::UpsampleMode;

/// Options of pooling of images (N, H, W, C). Formulas are in core/ops/max_pool2d.h and core/ops/avg_pool2d.h.
/// Options of max and average pooling.
struct PoolOptions {
  Extent2 kernel = 2;
  Extent2 stride = 0;  ///< 0: equal to the kernel
  Extent2 padding = 0;
  bool count_include_pad = true;  ///< average pooling: true if padding counts as zeros in the average

  Extent2 resolved_stride() const { return stride == Extent2(0) ? kernel : stride; }
};
inline Variable max_pool2d(const Variable& x, const PoolOptions& options = {}) {
  return apply_one<ops::MaxPool2d>(
      {.kernel = options.kernel, .stride = options.resolved_stride(), .padding = options.padding}, {x});
}
inline Variable avg_pool2d(const Variable& x, const PoolOptions& options = {}) {
  return apply_one<ops::AvgPool2d>({.kernel = options.kernel,
                                    .stride = options.resolved_stride(),
                                    .padding = options.padding,
                                    .count_include_pad = options.count_include_pad},
                                   {x});
}

inline Variable upsample_to(const Variable& x, std::int64_t height, std::int64_t width,
                            UpsampleMode mode = UpsampleMode::kNearest) {
  return apply_one<ops::Upsample>({.out_height = height, .out_width = width, .mode = mode}, {x});
}
/// Enlarges height and width of images x (N, H, W, C) by `factor`. Formulas are in core/ops/upsample.h.
inline Variable upsample(const Variable& x, std::int64_t factor, UpsampleMode mode = UpsampleMode::kNearest) {
  check<ShapeError>(x.value().rank() == 4 && factor >= 1 && factor <= ops::kMaxExtent && x.dim(1) <= ops::kMaxExtent &&
                        x.dim(2) <= ops::kMaxExtent,
                    "{}: wanted x of shape (N, H, W, C) and a factor from 1 to 2^30, got {} and {}",
                    where(ops::Upsample::info.name), x.shape(), factor);
  return upsample_to(x, x.dim(1) * factor, x.dim(2) * factor, mode);
}

}  // namespace binade
