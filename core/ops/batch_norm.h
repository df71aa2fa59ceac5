#pragma once

#include "core/kernels/norm.h"
#include "core/ops/op.h"

namespace binade::ops {

/// Batch norm over all dimensions but the last (Ioffe, Szegedy, 2015), with the residual sum and the ReLU that follow
/// it fused in. Inputs (x, weight, bias, residual, running_mean, running_var): x (N, H, W, C) or (N, C); the parameters
/// and statistics (C); weight, bias and residual (x's shape) may be left out; the running statistics are read only when
/// `training` is off. Outputs (y, mean, var): y in x's dtype; mean and biased variance (C) of the batch, which carry no
/// gradient (the running ones when not training).
///
///   training: mean = avg(x), var = avg((x - mean)^2) over the N H W values of a channel
///   rstd = 1 / sqrt(var + eps), xhat = (x - mean) rstd, y = act(xhat weight + bias + residual)
///   gy' = gy where act passed; gresidual = gy'; gbias = sum gy'; gweight = sum gy' xhat
///   training: gx = weight rstd (gy' - avg(gy') - xhat avg(gy' xhat)); else gx = weight rstd gy'
///
/// Statistics: two passes per block of rows in f32, blocks combined in double in block order (Chan, Golub, LeVeque,
/// 1983). Parameters and statistics are f32 (f64 for f64). x and residual may be channel slices. A NaN in a channel
/// makes the channel's statistics and y NaN; the ReLU keeps NaN. eps = 0 and a constant channel is the pole. Saved: x,
/// mean, rstd, weight, bias, and y where a residual and a ReLU meet (the mask). Throws ShapeError on (C) or residual
/// mismatches, and when training on no values.
struct BatchNorm {
  struct Params {
    double eps = 1e-5;
    bool training = true;
    bool relu = false;
  };
  static constexpr OpInfo info{.name = "batch_norm",
                               .inputs = "x, weight?, bias?, residual?, running_mean?, running_var?",
                               .precision = PrecisionClass::kAsIs,
                               .numerics = {.safe_low = -1e16, .safe_high = 1e16, .ulp_f32 = 8, .ulp_half = 1},
                               .policy_inputs = 0b1001,
                               .family = OpFamily::kNorm,
                               .observed = Observed::kByKernels};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// One call over raw memory, as a device sees it. x, residual, y and their gradients are of `dtype`; the rest is of its
/// computing type. Null leaves a part out.
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
struct BatchNormKernels {
  void (*forward)(const BatchNormForward&);
  void (*backward)(const BatchNormBackward&);
};
KernelSlot<BatchNormKernels>& batch_norm_slot();
void register_batch_norm_cpu();

}  // namespace binade::ops
