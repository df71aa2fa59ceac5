#pragma once

#include "binade/autograd/variable.h"
#include "binade/core/ops/extent2.h"
#include "binade/core/ops/upsample.h"

namespace binade {

using ops::UpsampleMode;

/// Windows over images (N, H, W, C); formulas: core/ops/{max_pool2d,avg_pool2d,upsample}.h.
struct PoolOptions {
  Extent2 kernel = 2;
  Extent2 stride = 0;  ///< 0: as the kernel
  Extent2 padding = 0;
  bool count_include_pad = true;  ///< average pooling: padding counts as zeros
};
Variable max_pool2d(const Variable& x, const PoolOptions& options = {});
Variable avg_pool2d(const Variable& x, const PoolOptions& options = {});

/// `factor` times as high and wide.
Variable upsample(const Variable& x, std::int64_t factor, UpsampleMode mode = UpsampleMode::kNearest);
Variable upsample_to(const Variable& x, std::int64_t height, std::int64_t width,
                     UpsampleMode mode = UpsampleMode::kNearest);

}  // namespace binade
