#pragma once

#include <cstdint>

#include "binade/core/dtype.h"

/// Arguments of row norms, and of the CPU's loops over columns. Values have `dtype`; statistics, parameters and their
/// gradients have its computing type (f32, or f64 for f64). Pitches are in elements. Null leaves a part out.
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
  const void* gh = nullptr;
  const void* weight = nullptr;
  const void* mean = nullptr;
  const void* rstd = nullptr;
  void* gx = nullptr;
  void* gw = nullptr;
  void* gb = nullptr;
  void* partial = nullptr;  ///< scratch of (blocks, 2, cols); null if neither gw nor gb is wanted
  std::int64_t blocks() const { return (rows + rows_per_block - 1) / rows_per_block; }
};

namespace cpu {

/// What the column kernels share: `samples` x `rows` rows of `cols` channels, each sample with its own channel vectors
/// (samples, cols). Batch norm is one sample; group norm is one per image. Rows are cut into blocks of `rows_per_block`
/// that never cross a sample.
struct ColumnShape {
  DType dtype = DType::f32;
  std::int64_t samples = 1, rows = 0, cols = 0, rows_per_block = 1;
  std::int64_t blocks() const { return (rows + rows_per_block - 1) / rows_per_block; }  ///< of one sample
};

/// mean and sum of squared deviations from it, per channel and block, in two passes over the (cached) block.
struct ColumnMoments : ColumnShape {
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  void* partial = nullptr;  ///< (samples, blocks, 2, cols): mean and squared deviations
};

/// y = act((x - mean) scale + bias + r)
struct ColumnApply : ColumnShape {
  bool relu = false;
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  const void* residual = nullptr;
  std::int64_t residual_pitch = 0;
  const void* mean = nullptr;
  const void* scale = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
  std::int64_t y_pitch = 0;
};

/// sum gy' and sum gy' (x - mean) per channel and block, where gy' is gy behind the ReLU's mask. The mask is taken from
/// `y` where given, else from (x - mean) scale + bias, which are the bits that ColumnApply compared.
struct ColumnGradientSums : ColumnShape {
  bool relu = false;
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  const void* y = nullptr;
  std::int64_t y_pitch = 0;
  const void* gy = nullptr;
  std::int64_t gy_pitch = 0;
  const void* mean = nullptr;
  const void* scale = nullptr;
  const void* bias = nullptr;
  void* partial = nullptr;  ///< (samples, blocks, 2, cols)
};

/// gx = scale (gy' - center) + slope (x - mean) + constant; gr = gy'
struct ColumnGradientApply : ColumnGradientSums {
  const void* center = nullptr;
  const void* slope = nullptr;
  const void* constant = nullptr;
  void* gx = nullptr;
  void* gr = nullptr;
};

struct RowNormKernels {
  void (*forward)(const RowNormForward&);
  void (*backward)(const RowNormBackward&);
};

struct ColumnNormKernels {
  void (*moments)(const ColumnMoments&);
  void (*apply)(const ColumnApply&);
  void (*gradient_sums)(const ColumnGradientSums&);
  void (*gradient_apply)(const ColumnGradientApply&);
};

}  // namespace cpu
}  // namespace binade
