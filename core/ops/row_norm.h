#pragma once

#include "binade/core/ops/norms.h"

namespace binade::ops {

/// The computation that layer norm and RMS norm share.
struct RowNorm {
  const OpInfo& info;
  double eps{};
  bool rms{};  ///< true: without mean and bias
  bool add{};  ///< true: inputs (x, residual, weight, bias), outputs (x + residual, y); false: (x, weight, bias) and y

  Tensors forward(OpContext& ctx, std::span<const Tensor> in) const;
  void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx) const;
};

/// An op unit that computes a RowNorm. Derive from it and define Params (with `eps`) and info.
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
