#include "binade/core/ops/rms_norm.h"

#include "binade/core/ops/row_norm.h"

namespace binade::ops {

Tensors RmsNorm::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return RowNorm{.info = info, .eps = p.eps, .rms = true, .add = false}.forward(ctx, in);
}
void RmsNorm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  RowNorm{.info = info, .eps = p.eps, .rms = true, .add = false}.backward(ctx, gy, gx);
}

Tensors AddRmsNorm::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return RowNorm{.info = info, .eps = p.eps, .rms = true, .add = true}.forward(ctx, in);
}
void AddRmsNorm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  RowNorm{.info = info, .eps = p.eps, .rms = true, .add = true}.backward(ctx, gy, gx);
}

}  // namespace binade::ops
