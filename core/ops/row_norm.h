#pragma once

#include "binade/core/ops/norms.h"

namespace binade::ops {

/// The computation that layer norm and RMS norm share.
struct RowNorm {
  const OpInfo& info;
  double eps{};
  bool rms{};  ///< true: RMS norm, which has no mean and no bias; false: layer norm
  bool add{};  ///< true: inputs (x, residual, weight, bias), outputs (x + residual, y); false: (x, weight, bias) and y

  Tensors forward(OpContext& ctx, std::span<const Tensor> in) const;
  void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx) const;
};

/// Base of op units that compute a RowNorm. A derived struct defines Params (with `eps`) and info.
template <class Op, bool rms, bool add>
struct RowNormOp {
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const auto& p) {
    return RowNorm{.info = Op::info, .eps = p.eps, .rms = rms, .add = add}.forward(ctx, in);
  }
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const auto& p) {
    RowNorm{.info = Op::info, .eps = p.eps, .rms = rms, .add = add}.backward(ctx, gy, gx);
  }
};

}  // namespace binade::ops
