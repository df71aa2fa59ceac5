#pragma once

#include <cstdint>
#include <limits>

#include "binade/core/dtype.h"
#include "binade/core/math.h"

/// Arguments of batch norm and group norm, as plain structs over raw memory, which kernels of any compiler can read.
namespace binade {

/// Returns 1 / sqrt(variance + eps), or NaN if the variance overflows in C, because the formula would give 0, and the
/// op's result would silently be its bias.
template <class C>
BINADE_HD C reciprocal_deviation(C variance, C eps) {
  return variance <= std::numeric_limits<C>::max() ? C(1) / math::sqrt(variance + eps)
                                                   : std::numeric_limits<C>::quiet_NaN();
}

/// Returns channel c of a vector, or `otherwise` if the vector is null.
template <class C>
BINADE_HD C at_or(const void* vector, std::int64_t c, C otherwise) {
  return vector != nullptr ? static_cast<const C*>(vector)[c] : otherwise;
}

/// A norm over channels: `samples` x `rows` positions of `cols` channels. x, residual, y and their gradients have
/// `dtype`; everything else is f32, or f64 for f64. A null pointer leaves out that part of the computation. Batch norm
/// treats all positions as one sample.
struct ChannelNorm {
  DType dtype = DType::f32;
  std::int64_t samples = 1, rows = 0, cols = 0;
  std::int64_t groups = 1;  ///< number of groups of channels (group norm)
  bool relu = false;
  const void* x = nullptr;
  std::int64_t x_pitch = 0;  ///< elements between neighboring positions, like all pitches below
  const void* weight = nullptr;
  const void* bias = nullptr;
};

/// Arguments of forward that both norms share.
struct ChannelNormForward : ChannelNorm {
  double eps = 0;
  const void* residual = nullptr;
  std::int64_t residual_pitch = 0;
  void* y = nullptr;
  std::int64_t y_pitch = 0;
  void* mean = nullptr;
  void* rstd = nullptr;  ///< 1 / sqrt(variance + eps)
};
/// Arguments of backward that both norms share.
struct ChannelNormBackward : ChannelNorm {
  const void* y = nullptr;  ///< y of forward, for the ReLU's mask; null: the mask is recomputed from x
  std::int64_t y_pitch = 0;
  const void* gy = nullptr;
  std::int64_t gy_pitch = 0;
  const void* mean = nullptr;
  const void* rstd = nullptr;
  void* gx = nullptr;
  void* gresidual = nullptr;
  void* gweight = nullptr;
  void* gbias = nullptr;
};

/// Arguments of the passes over columns (channels) that both norms consist of; ColumnNormKernels (core/kernels/norm.h)
/// has their formulas. Vectors of channels are (samples, cols), weight and bias (cols).
struct Columns : ChannelNorm {
  const void* residual = nullptr;
  std::int64_t residual_pitch = 0;
  const void* mean = nullptr;
  const void* scale = nullptr;  ///< rstd; the loops multiply it by `weight` unless that is null
  void* out = nullptr;          ///< y; backward: gx
  std::int64_t out_pitch = 0;
  const void* y = nullptr;  ///< backward: y of forward, for the ReLU's mask; null: the mask is recomputed from x
  std::int64_t y_pitch = 0;
  const void* gy = nullptr;
  std::int64_t gy_pitch = 0;
  const void* center = nullptr;  ///< center, slope and constant: coefficients of ColumnNormKernels::gradient_apply
  const void* slope = nullptr;
  const void* constant = nullptr;
  void* gr = nullptr;  ///< gradient of the residual
};

/// Copies the pointers of `a`. For group norm the caller must replace `mean`, which is per group, by one value per
/// channel. Scale, center, slope and constant stay null.
inline Columns columns_of(const ChannelNormForward& a) {
  Columns columns{a};
  columns.residual = a.residual;
  columns.residual_pitch = a.residual_pitch;
  columns.mean = a.mean;
  columns.out = a.y;
  columns.out_pitch = a.y_pitch;
  return columns;
}
inline Columns columns_of(const ChannelNormBackward& a) {
  Columns columns{a};
  columns.mean = a.mean;
  columns.y = a.y;
  columns.y_pitch = a.y_pitch;
  columns.gy = a.gy;
  columns.gy_pitch = a.gy_pitch;
  columns.out = a.gx;
  columns.out_pitch = a.cols;
  columns.gr = a.gresidual;
  return columns;
}

/// Arguments of batch norm (core/ops/batch_norm.h). mean, var and rstd are (cols). rstd is written; mean and var are
/// written when training and read otherwise.
struct BatchNormForward : ChannelNormForward {
  bool training = true;
  void* var = nullptr;
};
/// Arguments of the backward of batch norm.
struct BatchNormBackward : ChannelNormBackward {
  bool training = true;
};

/// Sets a channel's mean and var from its mean and the sum of its squared deviations, if training, and rstd from var.
template <class C>
BINADE_HD void set_statistics(const BatchNormForward& a, std::int64_t c, double mean, double squares) {
  C* const var = static_cast<C*>(a.var);
  if (a.training) {
    static_cast<C*>(a.mean)[c] = static_cast<C>(mean);
    var[c] = static_cast<C>(squares / static_cast<double>(a.rows));
  }
  static_cast<C*>(a.rstd)[c] = reciprocal_deviation(var[c], static_cast<C>(a.eps));
}
/// Sets a channel's gweight and gbias from `sum` = sum gy' and `product_sum` = sum gy' (x - mean), where gy' is gy
/// after the ReLU's mask. If training, also sets the channel's center and slope (ColumnNormKernels::gradient_apply).
template <class C>
BINADE_HD void set_gradients(const BatchNormBackward& a, std::int64_t c, double sum, double product_sum, C* center,
                             C* slope) {
  const C scale = static_cast<const C*>(a.rstd)[c] * at_or<C>(a.weight, c, C(1));
  const double rstd = static_cast<const C*>(a.rstd)[c], product = product_sum * rstd;  // sum of gy' xhat
  const auto count = static_cast<double>(a.rows);
  if (a.gbias != nullptr) static_cast<C*>(a.gbias)[c] = static_cast<C>(sum);
  if (a.gweight != nullptr) static_cast<C*>(a.gweight)[c] = static_cast<C>(product);
  if (!a.training) return;
  center[c] = static_cast<C>(sum / count);
  slope[c] = static_cast<C>(-static_cast<double>(scale) * rstd * product / count);
}

/// Arguments of group norm (core/ops/group_norm.h). mean and rstd, (samples, groups), are written.
struct GroupNormForward : ChannelNormForward {};
/// Arguments of the backward of group norm.
struct GroupNormBackward : ChannelNormBackward {};

/// running = rest * running + share * batch, in f32, with the batch's variance times `unbiased`. Increments `batches`.
struct MoveStatistics {
  std::int64_t cols = 0;
  float share = 0, rest = 1, unbiased = 1;
  DType dtype = DType::f32;    ///< dtype of mean and var: f32 or f64
  const void* mean = nullptr;  ///< (cols), statistics of the batch
  const void* var = nullptr;
  float* running_mean = nullptr;
  float* running_var = nullptr;
  std::int64_t* batches = nullptr;
};

}  // namespace binade
