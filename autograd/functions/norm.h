#pragma once

#include "binade/autograd/variable.h"
#include "binade/core/ops/output_view.h"

namespace binade {

/// Normalizations; formulas, shapes and dtypes: core/ops/{layer,rms,group,batch}_norm.h. An undefined weight, bias or
/// residual is left out.

Variable layer_norm(const Variable& x, const Variable& weight = {}, const Variable& bias = {}, double eps = 1e-5);
Variable rms_norm(const Variable& x, const Variable& weight = {}, double eps = 1e-6);

/// h = x + residual, y = norm(h), in one pass: the step from one transformer sub-layer to the next.
struct AddNormResult {
  Variable h{}, y{};
};
AddNormResult add_layer_norm(const Variable& x, const Variable& residual, const Variable& weight = {},
                             const Variable& bias = {}, double eps = 1e-5);
AddNormResult add_rms_norm(const Variable& x, const Variable& residual, const Variable& weight = {}, double eps = 1e-6);

/// Of group and batch norm.
struct ChannelNormOptions {
  double eps = 1e-5;
  bool relu = false;  ///< y = relu(norm(x) + residual), fused
  Variable residual = {};
  ops::OutputView into = {};  ///< where y lies
};
Variable group_norm(const Variable& x, std::int64_t groups, const Variable& weight = {}, const Variable& bias = {},
                    const ChannelNormOptions& options = {});

/// mean and biased variance of the batch beside y; they carry no gradient.
struct BatchNormResult {
  Variable y{}, mean{}, var{};
};
BatchNormResult batch_norm(const Variable& x, const Variable& weight, const Variable& bias,
                           const ChannelNormOptions& options = {});
/// With given statistics (evaluation).
Variable batch_norm_with(const Variable& x, const Variable& mean, const Variable& var, const Variable& weight,
                         const Variable& bias, const ChannelNormOptions& options = {});

}  // namespace binade
