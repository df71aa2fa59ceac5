#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/functions/norm.h"
#include "binade/core/ops/batch_norm.h"
#include "binade/core/ops/group_norm.h"
#include "binade/core/ops/layer_norm.h"
#include "binade/core/ops/rms_norm.h"

namespace binade::derivatives {
namespace {

/// xhat = (x - mean(x)) rstd and rstd = 1 / standard deviation, as recorded functions of x.
struct Normalized {
  Variable xhat, rstd;

  /// Computes the statistics over `axes`. With `rms`, x is not centered.
  static Normalized over(const Variable& x, const std::vector<int>& axes, double eps, bool rms = false) {
    const Variable centered = rms ? x : x - mean(x, axes, true);
    const Variable rstd = pow(mean(square(centered), axes, true) + eps, -0.5);
    return {centered * rstd, rstd};
  }
  /// The gradient of x, given that of xhat.
  Variable gradient(const Variable& g, const std::vector<int>& axes, bool rms = false) const {
    const Variable along = g - xhat * mean(g * xhat, axes, true);
    return rstd * (rms ? along : along - mean(g, axes, true));
  }
};

/// Derivative of the norms over rows. Positions of saved tensors and inputs: core/ops/row_norm.cpp.
template <class Op, bool rms, bool add>
Variables row_norm_gradients(const RecordedCall& call) {
  constexpr int kWeight = add ? 2 : 1;
  const Shape channels{call.described(0).shape.cols()};
  const Variable x = wide(add ? call.output(0, 0) : call.input(0, 0));
  Variables g(call.context().inputs.size());
  const Variable& gy = call.gy(add ? 1 : 0);
  Variable gx;
  if (gy.defined()) {
    const Variable wide_gy = wide(gy);
    const Normalized norm = Normalized::over(x, {-1}, call.params<Op>().eps, rms);
    const Variable scaled = call.saved(3).defined() ? wide_gy * wide(call.input(kWeight, 3)) : wide_gy;
    gx = norm.gradient(scaled, {-1}, rms);
    if (call.needs(kWeight)) g[kWeight] = sum_to(wide_gy * norm.xhat, channels);
    if constexpr (!rms)
      if (call.needs(kWeight + 1)) g[kWeight + 1] = sum_to(wide_gy, channels);
  }
  if constexpr (add) {
    if (call.gy(0).defined()) gx = gx.defined() ? gx + wide(call.gy(0)) : call.gy(0);
    g[1] = gx;
  }
  g[0] = gx;
  return g;
}

enum Input { kX, kWeight, kBias, kResidual };                             // of batch norm and group norm
enum Saved { kSavedX, kMean, kRstd, kSavedWeight, kSavedBias, kOutput };  // norms.cpp: ChannelNormInputs::save

/// Returns a tensor that is positive where the fused ReLU was active: y or, if y was not saved, xhat weight + bias.
Tensor signs_of(const RecordedCall& call, const Variable& xhat) {
  if (call.saved(kOutput).defined()) return call.saved(kOutput);
  const NoGradGuard constant;
  Variable z = xhat.detach();
  if (call.saved(kSavedWeight).defined()) z = z * wide(call.saved(kSavedWeight));
  if (call.saved(kSavedBias).defined()) z = z + wide(call.saved(kSavedBias));
  return z.value();
}

/// Returns the gradient of xhat, and stores those of weight, bias and residual in `g`. `xhat` has x's shape.
Variable affine_gradients(const RecordedCall& call, const Variable& xhat, bool relu, Variables& g) {
  const Variable gy = wide(relu ? relu_gradient(signs_of(call, xhat), call.gy()) : call.gy());
  const Shape channels{gy.shape().cols()};
  if (call.needs(kWeight)) g[kWeight] = sum_to(gy * xhat, channels);
  if (call.needs(kBias)) g[kBias] = sum_to(gy, channels);
  if (call.needs(kResidual)) g[kResidual] = gy;
  return call.saved(kSavedWeight).defined() ? gy * wide(call.input(kWeight, kSavedWeight)) : gy;
}

Variables group_norm_gradients(const RecordedCall& call) {
  const auto& p = call.params<ops::GroupNorm>();
  const Shape& shape = call.described(kX).shape;
  Variables g(4);
  if (shape.numel() == 0) return g;
  const Shape grouped{shape[0], shape.numel() / shape[0] / shape.cols(), p.groups, shape.cols() / p.groups};
  const std::vector<int> axes{1, 3};
  const Normalized norm = Normalized::over(shaped(wide(call.input(kX, kSavedX)), grouped), axes, p.eps);
  const Variable gxhat = affine_gradients(call, shaped(norm.xhat, shape), p.relu, g);
  if (call.needs(kX)) g[kX] = shaped(norm.gradient(shaped(gxhat, grouped), axes), shape);
  return g;
}

Variables batch_norm_gradients(const RecordedCall& call) {
  const auto& p = call.params<ops::BatchNorm>();
  const Variable x = wide(call.input(kX, kSavedX));
  Variables g(6);
  if (!call.gy().defined()) return g;
  std::vector<int> axes;
  for (int d = 0; d + 1 < x.value().rank(); ++d) axes.push_back(d);
  const Normalized norm = p.training ? Normalized::over(x, axes, p.eps)
                                     : Normalized{(x - call.saved(kMean)) * call.saved(kRstd), call.saved(kRstd)};
  const Variable gxhat = affine_gradients(call, norm.xhat, p.relu, g);
  if (call.needs(kX)) g[kX] = p.training ? norm.gradient(gxhat, axes) : gxhat * norm.rstd;
  return g;
}

constexpr Entry kEntries[] = {
    {&ops::LayerNorm::info, row_norm_gradients<ops::LayerNorm, false, false>},
    {&ops::AddLayerNorm::info, row_norm_gradients<ops::AddLayerNorm, false, true>},
    {&ops::RmsNorm::info, row_norm_gradients<ops::RmsNorm, true, false>},
    {&ops::AddRmsNorm::info, row_norm_gradients<ops::AddRmsNorm, true, true>},
    {&ops::GroupNorm::info, group_norm_gradients},
    {&ops::BatchNorm::info, batch_norm_gradients},
};

}  // namespace

std::span<const Entry> derivatives_of_norms() { return kEntries; }

}  // namespace binade::derivatives
