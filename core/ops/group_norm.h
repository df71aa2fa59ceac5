#pragma once

#include "core/ops/op.h"

namespace binade::ops {

/// Group norm (Wu, He, 2018). x (N, …, C), weight (C), bias (C), each of the last two may be left out; y like x.
/// Channels fall into `groups` runs of C / groups; statistics are over a sample's group, all its positions.
///
///   y = (x - mean) rstd weight + bias; m values to a group, xhat = (x - mean) rstd, g = gy weight
///   gx = rstd (g - avg(g) - xhat avg(g xhat)) with averages over the group; gweight = sum gy xhat; gbias = sum gy
///
/// Statistics as batch_norm's: f32 in blocks, combined in double in block order. Parameters f32 (f64 for f64). x may be
/// a channel slice. NaN spreads over its group. eps = 0 and a constant group is the pole. Saved: x, mean, rstd, weight.
/// Throws ShapeError when C is not a multiple of groups, and on parameters that are not (C).
struct GroupNorm {
  struct Params {
    std::int64_t groups = 1;
    double eps = 1e-5;
  };
  static constexpr OpInfo info{.name = "group_norm",
                               .precision = PrecisionClass::kAsIs,
                               .numerics = {.safe_low = -1e16, .safe_high = 1e16, .ulp_f32 = 8, .ulp_half = 1},
                               .policy_inputs = 0b1};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// One call over raw memory: `samples` x `rows` positions of `cols` channels. x, y, gy, gx are of `dtype`; the rest of
/// its computing type. Null leaves a part out.
struct GroupNormCall {
  DType dtype = DType::f32;
  std::int64_t samples = 0, rows = 0, cols = 0, groups = 1;
  double eps = 0;
  const void* x = nullptr;
  std::int64_t x_pitch = 0;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* mean = nullptr;  ///< (samples, groups): written by forward, read by backward
  void* rstd = nullptr;
  void* y = nullptr;         ///< forward
  const void* gy = nullptr;  ///< backward
  void* gx = nullptr;
  void* gweight = nullptr;
  void* gbias = nullptr;
};
struct GroupNormKernels {
  void (*forward)(const GroupNormCall&);
  void (*backward)(const GroupNormCall&);
};
KernelSlot<GroupNormKernels>& group_norm_slot();
void register_group_norm_cpu();

}  // namespace binade::ops
