#pragma once

#include <cstdint>
#include <limits>

#include "binade/core/dtype.h"
#include "binade/core/math.h"

/// Arguments of batch norm and group norm: plain structs over raw memory, readable by kernels of any compiler.
namespace binade {

/// Returns 1 / sqrt(variance + eps), or NaN if the variance overflows in C: the formula would give 0, and y would
/// silently be the bias.
template <class C>
BINADE_HD C reciprocal_deviation(C variance, C eps) {
  return variance <= std::numeric_limits<C>::max() ? C(1) / math::sqrt(variance + eps)
                                                   : std::numeric_limits<C>::quiet_NaN();
}

/// A norm over channels: `samples` x `rows` positions of `cols` channels. x, residual, y and their gradients are of
/// `dtype`; the rest is of its computing type. Null leaves a part out. Batch norm takes all positions for one sample.
struct ChannelNorm {
  DType dtype = DType::f32;
  std::int64_t samples = 1, rows = 0, cols = 0;
  std::int64_t groups = 1;  ///< groups of channels (group norm)
  bool relu = false;
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  const void* weight = nullptr;
  const void* bias = nullptr;
};

struct ChannelNormForward : ChannelNorm {
  double eps = 0;
  const void* residual = nullptr;
  std::int64_t residual_pitch = 0;
  void* y = nullptr;
  std::int64_t y_pitch = 0;
  void* mean = nullptr;
  void* rstd = nullptr;
};
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

/// One call of batch norm (core/ops/batch_norm.h). mean, var, rstd (cols): rstd is written, mean and var are written
/// when training and read else.
struct BatchNormForward : ChannelNormForward {
  bool training = true;
  void* var = nullptr;
};
struct BatchNormBackward : ChannelNormBackward {
  bool training = true;
};

/// One call of group norm (core/ops/group_norm.h). mean and rstd (samples, groups) are written.
struct GroupNormForward : ChannelNormForward {};
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
