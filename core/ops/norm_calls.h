#pragma once

#include <cstdint>

#include "core/dtype.h"

/// What batch norm and group norm ask of a device, over raw memory: plain structs, which kernels of any compiler read.
namespace binade::ops {

/// One call of batch norm (core/ops/batch_norm.h). x, residual, y and their gradients are of `dtype`; the rest is of
/// its computing type. Null leaves a part out.
struct BatchNormForward {
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
  bool training = true, relu = false;
  double eps = 0;
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  const void* residual = nullptr;
  std::int64_t residual_pitch = 0;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
  void* mean = nullptr;  ///< (cols): written when training, read else
  void* var = nullptr;   ///< the same
  void* rstd = nullptr;  ///< written
};
struct BatchNormBackward {
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
  bool training = true, relu = false;
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  const void* y = nullptr;  ///< the ReLU's mask; null: taken from x again
  const void* gy = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  const void* mean = nullptr;
  const void* rstd = nullptr;
  void* gx = nullptr;
  void* gresidual = nullptr;
  void* gweight = nullptr;
  void* gbias = nullptr;
};

/// running = rest running + share batch, in f32; the batch's variance is taken times `unbiased`. One more in `batches`.
struct MoveStatistics {
  std::int64_t cols = 0;
  float share = 0, rest = 1, unbiased = 1;
  DType dtype = DType::f32;    ///< of mean and var: f32 or f64
  const void* mean = nullptr;  ///< (cols), of the batch
  const void* var = nullptr;
  float* running_mean = nullptr;
  float* running_var = nullptr;
  std::int64_t* batches = nullptr;
};

/// One call of group norm (core/ops/group_norm.h): `samples` x `rows` positions of `cols` channels. x, residual, y and
/// their gradients are of `dtype`; the rest is of its computing type. Null leaves a part out.
struct GroupNormShape {
  DType dtype = DType::f32;
  std::int64_t samples = 0, rows = 0, cols = 0, groups = 1;
};
struct GroupNormForward : GroupNormShape {
  bool relu = false;
  double eps = 0;
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  const void* residual = nullptr;
  std::int64_t residual_pitch = 0;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
  void* mean = nullptr;  ///< (samples, groups)
  void* rstd = nullptr;  ///< the same
};
struct GroupNormBackward : GroupNormShape {
  bool relu = false;
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  const void* y = nullptr;  ///< the ReLU's mask; null: taken from x again
  const void* gy = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  const void* mean = nullptr;
  const void* rstd = nullptr;
  void* gx = nullptr;
  void* gresidual = nullptr;
  void* gweight = nullptr;
  void* gbias = nullptr;
};

}  // namespace binade::ops
