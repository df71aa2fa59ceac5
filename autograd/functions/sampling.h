#pragma once

#include <cstdint>
#include <vector>

#include "binade/autograd/functions/pool.h"
#include "binade/autograd/variable.h"

/// Resizing, and values of images (N, H, W, C) and volumes (N, D, H, W, C) at arbitrary positions.
namespace binade {

/// Options of interpolate(), as in PyTorch. Exactly one of `size` and `scale_factor` is given, with one number for each
/// of length, (height, width) or (depth, height, width), or one number for all of them.
struct InterpolateOptions {
  std::vector<std::int64_t> size{};
  /// The result has floor(extent scale_factor) positions, and positions in x are divided by the given factor, not by
  /// the ratio of the extents
  std::vector<double> scale_factor{};
  UpsampleMode mode = UpsampleMode::kNearest;
  bool align_corners = false;  ///< kLinear, kBilinear, kTrilinear and kBicubic only
  bool antialias = false;      ///< kBilinear and kBicubic only
};
/// Resizes sequences (N, L, C), images or volumes; formulas are in core/ops/upsample.h. Results have the dtype of x.
/// kBicubic is for images only. Throws ShapeError, DTypeError, and ArgumentError for options that do not fit.
Variable interpolate(const Variable& x, const InterpolateOptions& options);

/// GridSampleMode is the interpolation of grid_sample(). GridSamplePadding is its value outside of the image: zero, the
/// nearest pixel of the edge, or the image reflected at its edge.
enum class GridSampleMode { kBilinear, kNearest, kBicubic };
enum class GridSamplePadding { kZeros, kBorder, kReflection };
struct GridSampleOptions {
  GridSampleMode mode = GridSampleMode::kBilinear;  ///< kBilinear is trilinear for volumes
  GridSamplePadding padding = GridSamplePadding::kZeros;
  bool align_corners = false;  ///< true: -1 and 1 are the centers of the outermost pixels; false: their outer edges
};
/// Returns values at the positions of a grid: x (N, H, W, C) and grid (N, OH, OW, 2) -> (N, OH, OW, C), x (N, D, H, W,
/// C) and grid (N, OD, OH, OW, 3) -> (N, OD, OH, OW, C). The last axis of the grid has (x, y) or (x, y, z) in [-1, 1],
/// where x belongs to W. Positions and weights are computed in f32 (f64 for f64), results have the dtype of x. Both
/// inputs have gradients; that of the grid is 0 for kNearest, and with kBorder and kReflection for positions that,
/// after reflection, are at or beyond the center of an outermost pixel. A NaN in the grid gives NaN. kBicubic (a =
/// -0.75) is for images only. Throws ShapeError, DTypeError, ArgumentError.
Variable grid_sample(const Variable& x, const Variable& grid, const GridSampleOptions& options = {});

/// Returns a grid for grid_sample(), computed by an affine map of positions: theta (N, 2, 3) and size {H, W} -> (N, H,
/// W, 2), theta (N, 3, 4) and size {D, H, W} -> (N, D, H, W, 3); grid = theta (x, y, 1) at the positions of the
/// result's pixels. Computed and stored in f32 (f64 for f64). Throws ShapeError, DTypeError.
Variable affine_grid(const Variable& theta, const std::vector<std::int64_t>& size, bool align_corners = false);

}  // namespace binade
