#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// What layer norm and RMS norm share (they differ by the mean).
struct RowNorm {
  const OpInfo& info;
  double eps{};
  bool rms{};  ///< no mean, no bias
  bool add{};  ///< inputs are (x, residual, weight, bias) and outputs (x + residual, y); else (x, weight, bias) and (y)

  Tensors forward(OpContext& ctx, std::span<const Tensor> in) const;
  void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx) const;
};

}  // namespace binade::ops
