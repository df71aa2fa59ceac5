#pragma once

#include "binade/autograd/variable.h"
#include "binade/core/ops/output_view.h"

namespace binade {

/// Norms; formulas, shapes and dtypes in core/ops/{layer,rms,group,batch}_norm.h. Weight, bias and residual are
/// optional.

Variable layer_norm(const Variable& x, const Variable& weight = {}, const Variable& bias = {}, double eps = 1e-5);
Variable rms_norm(const Variable& x, const Variable& weight = {}, double eps = 1e-6);

/// Result of a residual connection and a norm in one pass: h = x + residual, y = norm(h).
struct AddNormResult {
  Variable h{}, y{};
};
AddNormResult add_layer_norm(const Variable& x, const Variable& residual, const Variable& weight = {},
                             const Variable& bias = {}, double eps = 1e-5);
AddNormResult add_rms_norm(const Variable& x, const Variable& residual, const Variable& weight = {}, double eps = 1e-6);

/// x / max(|x|, eps) with the p-norm along `axis`. Computed in f32 (f64 for f64), stored in the dtype of x.
Variable normalize(const Variable& x, double p = 2, int axis = -1, double eps = 1e-12);

/// Options of group norm and batch norm.
struct ChannelNormOptions {
  double eps = 1e-5;
  bool relu = false;          ///< true: y = relu(norm(x) + residual), fused
  Variable residual = {};     ///< added to norm(x); undefined: none
  ops::OutputView into = {};  ///< where y is stored; by default in a new tensor
};
Variable group_norm(const Variable& x, std::int64_t groups, const Variable& weight = {}, const Variable& bias = {},
                    const ChannelNormOptions& options = {});

/// Result of batch norm in training: the output y, and the mean and biased variance of the batch, which have no
/// gradient.
struct BatchNormResult {
  Variable y{}, mean{}, var{};
};
BatchNormResult batch_norm(const Variable& x, const Variable& weight, const Variable& bias,
                           const ChannelNormOptions& options = {});
/// Batch norm that normalizes with the given `mean` and `var` instead of those of the batch, for evaluation.
Variable batch_norm_with(const Variable& x, const Variable& mean, const Variable& var, const Variable& weight,
                         const Variable& bias, const ChannelNormOptions& options = {});

}  // namespace binade
