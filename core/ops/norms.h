#pragma once

#include "binade/core/kernels/channel_norm.h"
#include "binade/core/ops/op.h"

/// Code that the norms share.
namespace binade::ops {

/// Returns `info` with the fields that all norms share.
constexpr OpInfo norm_info(OpInfo info) {
  info.numerics = {.safe_low = -1e16, .safe_high = 1e16, .ulp_f32 = 8, .ulp_half = 1};
  info.family = OpFamily::kNorm;
  info.observed = Observed::kByKernels;
  return info;
}

/// Throws unless `p` is undefined or a floating tensor of shape (cols), one value per channel.
void check_channel_parameter(const OpInfo& info, const char* name, const Tensor& p, std::int64_t cols);

/// Returns the parameter `p` in `dtype` and contiguous, as kernels read it; undefined if `p` is undefined.
inline Tensor parameter_as(const Tensor& p, DType dtype) {
  return p.defined() ? p.to(dtype).contiguous_copy() : Tensor();
}

inline const void* raw_or_null(const Tensor& t) { return t.defined() ? t.raw() : nullptr; }

/// Inputs that batch norm and group norm have in common, as kernels read them.
struct ChannelNormInputs {
  Tensor x, residual, weight, bias;

  /// Takes x, weight, bias and residual from `in`. Throws ShapeError, DTypeError or ArgumentError if they or `eps` are
  /// invalid.
  ChannelNormInputs(const OpInfo& info, const OpContext& ctx, std::span<const Tensor> in, double eps);
  void describe(ChannelNormForward& a, Tensor& y, Tensor& mean, Tensor& rstd) const;
  void save(OpContext& ctx, const Tensor& y, const Tensor& mean, const Tensor& rstd, bool relu) const;
};

/// The tensors that ChannelNormInputs::save() saved.
struct SavedChannelNorm {
  const Tensor &x, &mean, &rstd, &weight, &bias, &y;

  SavedChannelNorm(const OpInfo& info, const OpContext& ctx);
  void describe(ChannelNormBackward& a, const Tensor& gy) const;
};

}  // namespace binade::ops
