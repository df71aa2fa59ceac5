#pragma once

#include "binade/autograd/variable.h"
#include "binade/core/ops/extent2.h"
#include "binade/core/ops/extent3.h"
#include "binade/core/ops/upsample.h"

namespace binade {

using ops::UpsampleMode;

/// Options of max and average pooling of images (N, H, W, C). Formulas are in core/ops/max_pool2d.h and
/// core/ops/avg_pool2d.h.
struct PoolOptions {
  Extent2 kernel = 2;
  Extent2 stride = 0;  ///< 0: equal to the kernel
  Extent2 padding = 0;
  bool count_include_pad = true;  ///< average pooling: true if padding counts as zeros in the average

  Extent2 resolved_stride() const { return stride == Extent2(0) ? kernel : stride; }
};
Variable max_pool2d(const Variable& x, const PoolOptions& options = {});
Variable avg_pool2d(const Variable& x, const PoolOptions& options = {});

/// Options of max_pool1d() and avg_pool1d(), as in PoolOptions.
struct Pool1dOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 0;  ///< 0: equal to the kernel
  std::int64_t padding = 0;
  bool count_include_pad = true;
};
/// Pooling of sequences x (N, L, C) -> (N, P, C), P = (L + 2 padding - kernel) / stride + 1, computed by max_pool2d()
/// and avg_pool2d() of images of height 1.
Variable max_pool1d(const Variable& x, const Pool1dOptions& options = {});
Variable avg_pool1d(const Variable& x, const Pool1dOptions& options = {});

/// Options of max_pool3d() and avg_pool3d(), as in PoolOptions.
struct Pool3dOptions {
  Extent3 kernel = 2;
  Extent3 stride = 0;  ///< 0: equal to the kernel
  Extent3 padding = 0;
  bool count_include_pad = true;
};
/// Pooling of volumes x (N, D, H, W, C), first within each plane, then across planes. The gradient of a maximum goes to
/// the first of equal elements. Averages are computed in f32 (f64 for f64) and rounded once.
Variable max_pool3d(const Variable& x, const Pool3dOptions& options = {});
Variable avg_pool3d(const Variable& x, const Pool3dOptions& options = {});

/// Values and positions: `auto [values, indices] = max_pool2d_with_indices(x)`.
struct MaxPoolResult {
  Variable values, indices;
};
/// Max pooling that also returns the index (i64) of each maximum: its row-major position in the sequence, image or
/// volume of its channel, as in PyTorch. Among equal elements, the first is chosen. The indices have no gradient.
MaxPoolResult max_pool1d_with_indices(const Variable& x, const Pool1dOptions& options = {});
MaxPoolResult max_pool2d_with_indices(const Variable& x, const PoolOptions& options = {});
MaxPoolResult max_pool3d_with_indices(const Variable& x, const Pool3dOptions& options = {});

/// Puts pooled values back at their positions, and 0 elsewhere: the partial inverse of max pooling with these options.
/// `size`: extents of the result; 0: (extent - 1) stride - 2 padding + kernel. Of several values for one position, the
/// last counts. Throw ShapeError, DTypeError, ArgumentError, and DataError for an index outside of the result.
Variable max_unpool1d(const Variable& x, const Variable& indices, const Pool1dOptions& options = {},
                      std::int64_t size = 0);
Variable max_unpool2d(const Variable& x, const Variable& indices, const PoolOptions& options = {}, Extent2 size = 0);
Variable max_unpool3d(const Variable& x, const Variable& indices, const Pool3dOptions& options = {}, Extent3 size = 0);

/// Power pooling: (sum of |x|^p over each window)^(1 / p); p = infinity takes the largest magnitude. Computed in f32
/// (f64 for f64), in which |x|^p may overflow; results have the dtype of x. The gradient of a window of zeros is 0.
/// PyTorch takes x^p without the magnitude, which differs for an odd p. Throw ArgumentError unless p > 0.
Variable lp_pool1d(const Variable& x, double p, const Pool1dOptions& options = {});
Variable lp_pool2d(const Variable& x, double p, const PoolOptions& options = {});
Variable lp_pool3d(const Variable& x, double p, const Pool3dOptions& options = {});

Variable upsample_to(const Variable& x, std::int64_t height, std::int64_t width,
                     UpsampleMode mode = UpsampleMode::kNearest);
/// Enlarges height and width of images x (N, H, W, C) by `factor`. Formulas are in core/ops/upsample.h.
Variable upsample(const Variable& x, std::int64_t factor, UpsampleMode mode = UpsampleMode::kNearest);

}  // namespace binade
