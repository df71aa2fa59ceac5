#include "binade/core/ops/layer_norm.h"

#include "binade/core/ops/row_norm.h"

namespace binade::ops {

Tensors LayerNorm::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return RowNorm{.info = info, .eps = p.eps, .rms = false, .add = false}.forward(ctx, in);
}
void LayerNorm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  RowNorm{.info = info, .eps = p.eps, .rms = false, .add = false}.backward(ctx, gy, gx);
}

Tensors AddLayerNorm::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  return RowNorm{.info = info, .eps = p.eps, .rms = false, .add = true}.forward(ctx, in);
}
void AddLayerNorm::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  RowNorm{.info = info, .eps = p.eps, .rms = false, .add = true}.backward(ctx, gy, gx);
}

}  // namespace binade::ops
