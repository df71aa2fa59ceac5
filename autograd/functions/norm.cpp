#include "binade/autograd/functions/norm.h"

#include <limits>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/ops/batch_norm.h"
#include "binade/core/ops/group_norm.h"
#include "binade/core/ops/layer_norm.h"
#include "binade/core/ops/rms_norm.h"
#include "binade/core/step_context.h"

namespace binade {

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps) {
  return apply_one<ops::LayerNorm>({.eps = eps}, {x, weight, bias});
}

Variable rms_norm(const Variable& x, const Variable& weight, double eps) {
  return apply_one<ops::RmsNorm>({.eps = eps}, {x, weight});
}

Variable normalize(const Variable& x, double p, int axis, double eps) {
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted a floating dtype, got {}", where("normalize"),
                    name_of(x.dtype()));
  check<ArgumentError>(eps >= 0, "{}: wanted eps of at least 0, got {}", where("normalize"), eps);
  const Variable wide = cast(x, accumulate_dtype(x.dtype()));
  return cast(wide / clamp(norm(wide, p, axis, true), eps, std::numeric_limits<double>::infinity()), x.dtype());
}

AddNormResult add_layer_norm(const Variable& x, const Variable& residual, const Variable& weight, const Variable& bias,
                             double eps) {
  auto outputs = apply<ops::AddLayerNorm>({.eps = eps}, {x, residual, weight, bias});
  return {outputs[0], outputs[1]};
}

AddNormResult add_rms_norm(const Variable& x, const Variable& residual, const Variable& weight, double eps) {
  auto outputs = apply<ops::AddRmsNorm>({.eps = eps}, {x, residual, weight});
  return {outputs[0], outputs[1]};
}

Variable group_norm(const Variable& x, std::int64_t groups, const Variable& weight, const Variable& bias,
                    const ChannelNormOptions& options) {
  return apply_one<ops::GroupNorm>({.groups = groups, .eps = options.eps, .relu = options.relu, .into = options.into},
                                   {x, weight, bias, options.residual});
}

BatchNormResult batch_norm(const Variable& x, const Variable& weight, const Variable& bias,
                           const ChannelNormOptions& options) {
  auto outputs = apply<ops::BatchNorm>(
      {.eps = options.eps, .training = true, .relu = options.relu, .into = options.into},
      {x, weight, bias, options.residual, Variable(), Variable()});
  return {outputs[0], outputs[1], outputs[2]};
}

Variable batch_norm_with(const Variable& x, const Variable& mean, const Variable& var, const Variable& weight,
                         const Variable& bias, const ChannelNormOptions& options) {
  return apply_one<ops::BatchNorm>({.eps = options.eps, .training = false, .relu = options.relu, .into = options.into},
                                   {x, weight, bias, options.residual, mean, var});
}

}  // namespace binade
