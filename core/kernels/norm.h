#pragma once

#include <cstdint>

#include "binade/core/kernels/channel_norm.h"

/// Arguments of row norms, and of the CPU's loops over columns. Values have `dtype`; statistics, parameters and their
/// gradients have its computing type (f32, or f64 for f64). Pitches are in elements. A null pointer leaves out that
/// part of the computation.
namespace binade {

/// Normalizes rows over their columns (layer norm, or RMS norm if `rms`):
///   h = round(x + r); mean = sum h / cols (0 for rms); rstd = 1 / sqrt(sum (h - mean)^2 / cols + eps)
///   y = (h - mean) rstd w + b
struct RowNormForward {
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
  bool rms = false;
  double eps = 0;
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  const void* residual = nullptr;
  std::int64_t residual_pitch = 0;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* h = nullptr;  ///< contiguous; only with a residual
  void* y = nullptr;  ///< contiguous
  void* mean = nullptr;
  void* rstd = nullptr;
};

/// With xhat = (h - mean) rstd and g = gy w:
///   gx = rstd (g - avg(g) - xhat avg(g xhat)) + gh, gw = sum over rows of gy xhat, gb = sum over rows of gy
/// (avg(g) is 0 for rms). Rows are cut into blocks of `rows_per_block`, whose parts of gw and gb are added in block
/// order.
struct RowNormBackward {
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0, rows_per_block = 1;
  bool rms = false;
  const void* h = nullptr;
  std::int64_t h_pitch = 0;
  const void* gy = nullptr;
  const void* gh = nullptr;  ///< gradient of h from its other uses, added to gx
  const void* weight = nullptr;
  const void* mean = nullptr;
  const void* rstd = nullptr;
  void* gx = nullptr;
  void* gw = nullptr;
  void* gb = nullptr;
  void* partial = nullptr;  ///< scratch memory (blocks, 2, cols); null if neither gw nor gb is wanted
  std::int64_t blocks() const { return (rows + rows_per_block - 1) / rows_per_block; }
};

namespace cpu {

/// Arguments of the CPU's loops over columns: the rows of each sample are cut into blocks of `rows_per_block`.
struct ColumnBlocks : Columns {
  std::int64_t rows_per_block = 1;
  void* partial = nullptr;  ///< (samples, blocks, 2, cols): results of the two reductions
  std::int64_t blocks() const {
    return (rows + rows_per_block - 1) / rows_per_block;
  }  ///< number of blocks of one sample
};

/// Row norms of one kernel level.
struct RowNormKernels {
  void (*forward)(const RowNormForward&);
  void (*backward)(const RowNormBackward&);
};

/// Passes over columns (channels) of one kernel level.
struct ColumnNormKernels {
  /// partial = mean and sum of squared deviations from it, per channel, in two passes over the (cached) block.
  void (*moments)(const ColumnBlocks&);
  /// out = act((x - mean) scale + bias + residual)
  void (*apply)(const ColumnBlocks&);
  /// partial = sum gy' and sum gy' (x - mean) per channel, where gy' is gy after the ReLU's mask. The mask is taken
  /// from `y` if it is given; otherwise from (x - mean) scale + bias, the same bits that `apply` compared with 0.
  void (*gradient_sums)(const ColumnBlocks&);
  /// out = scale (gy' - center) + slope (x - mean) + constant; gr = gy'
  void (*gradient_apply)(const ColumnBlocks&);
};

}  // namespace cpu
}  // namespace binade
