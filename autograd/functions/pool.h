#pragma once

#include "binade/autograd/variable.h"
#include "binade/core/ops/extent2.h"
#include "binade/core/ops/upsample.h"

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
Variable max_pool2d(const Variable& x, const PoolOptions& options = {});
Variable avg_pool2d(const Variable& x, const PoolOptions& options = {});

Variable upsample_to(const Variable& x, std::int64_t height, std::int64_t width,
                     UpsampleMode mode = UpsampleMode::kNearest);
/// Enlarges height and width of images x (N, H, W, C) by `factor`. Formulas are in core/ops/upsample.h.
Variable upsample(const Variable& x, std::int64_t factor, UpsampleMode mode = UpsampleMode::kNearest);

}  // namespace binade
