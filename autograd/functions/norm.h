#pragma once

#include "binade/autograd/apply.h"
#include "binade/core/ops/batch_norm.h"
#include "binade/core/ops/group_norm.h"
#include "binade/core/ops/layer_norm.h"
#include "binade/core/ops/output_view.h"
#include "binade/core/ops/rms_norm.h"

namespace binade {

/// Norms; formulas, shapes and dtypes in core/ops/{layer,rms,group,batch}_norm.h. Weight, bias and residual are
/// optional.

inline Variable layer_norm(const Variable& x, const Variable& weight = {}, const Variable& bias = {},
                           double eps = 1e-5) {
  return apply_one<ops::LayerNorm>({.eps = eps}, {x, weight, bias});
}
inline Variable rms_norm(const Variable& x, const Variable& weight = {}, double eps = 1e-6) {
  return apply_one<ops::RmsNorm>({.eps = eps}, {x, weight});
}

/// Result of a residual connection and a norm in one pass: h = x + residual, y = norm(h).
struct AddNormResult {
  Variable h{}, y{};
};
inline AddNormResult add_layer_norm(const Variable& x, const Variable& residual, const Variable& weight = {},
                                    const Variable& bias = {}, double eps = 1e-5) {
  auto outputs = apply<ops::AddLayerNorm>({.eps = eps}, {x, residual, weight, bias});
  return {outputs[0], outputs[1]};
}
inline AddNormResult add_rms_norm(const Variable& x, const Variable& residual, const Variable& weight = {},
                                  double eps = 1e-6) {
  auto outputs = apply<ops::AddRmsNorm>({.eps = eps}, {x, residual, weight});
  return {outputs[0], outputs[1]};
}

/// Options of group norm and batch norm.
struct ChannelNormOptions {
  double eps = 1e-5;
  bool relu = false;          ///< true: y = relu(norm(x) + residual), fused
  Variable residual = {};     ///< added to norm(x); undefined: none
  ops::OutputView into = {};  ///< where y is stored; by default in a new tensor
};
inline Variable group_norm(const Variable& x, std::int64_t groups, const Variable& weight = {},
                           const Variable& bias = {}, const ChannelNormOptions& options = {}) {
  return apply_one<ops::GroupNorm>({.groups = groups, .eps = options.eps, .relu = options.relu, .into = options.into},
                                   {x, weight, bias, options.residual});
}

/// Result of batch norm in training: the output y, and the mean and biased variance of the batch, which have no
/// gradient.
struct BatchNormResult {
  Variable y{}, mean{}, var{};
};
inline BatchNormResult batch_norm(const Variable& x, const Variable& weight, const Variable& bias,
                                  const ChannelNormOptions& options = {}) {
  auto outputs = apply<ops::BatchNorm>(
      {.eps = options.eps, .training = true, .relu = options.relu, .into = options.into},
      {x, weight, bias, options.residual, Variable(), Variable()});
  return {outputs[0], outputs[1], outputs[2]};
}
/// Batch norm that normalizes with the given `mean` and `var` instead of those of the batch, for evaluation.
inline Variable batch_norm_with(const Variable& x, const Variable& mean, const Variable& var, const Variable& weight,
                                const Variable& bias, const ChannelNormOptions& options = {}) {
  return apply_one<ops::BatchNorm>({.eps = options.eps, .training = false, .relu = options.relu, .into = options.into},
                                   {x, weight, bias, options.residual, mean, var});
}

}  // namespace binade
