#pragma once

#include "binade/optim/flat_parameters.h"
#include "binade/optim/gradient_scan.h"

namespace binade::optim {

/// Returns the factor that reduces gradients of norm `norm` to norm `max_norm`: min(1, max_norm / (norm + 1e-6)), as in
/// PyTorch's clip_grad_norm_. The optimizer multiplies gradients by it as it reads them (StepInput::clip_factor).
/// Throws NumericError if the norm is not finite, because no factor can correct such gradients.
double clip_factor(double norm, double max_norm);

/// For training loops without a Trainer: scales all gradients in place so that their common norm is at most `max_norm`.
/// Returns the norm before scaling. If a gradient is not finite, throws NumericError with the parameter's name and
/// changes nothing.
double clip_by_norm(FlatParameters& parameters, double max_norm);

/// Clamps each element of all gradients to [-limit, limit], in place. NaN stays NaN.
void clip_by_value(FlatParameters& parameters, double limit);

/// Options of adaptive clipping.
struct AdaptiveClipOptions {
  double limit = 0.01;  ///< largest ratio of gradient norm to weight norm
  double floor = 1e-3;  ///< lower bound of the weight norm in that ratio, so that weights of 0 can learn
};

/// Adaptive clipping (Brock et al., "High-performance large-scale image recognition without normalization", ICML 2021,
/// eq. 3), in place. A unit is a row of a parameter along the first dimension; a vector is one unit. If the gradient
/// norm of a unit exceeds limit * max(norm of the unit's weights, floor), its gradient is scaled down to that norm. For
/// the comparison gradients are multiplied by `inverse_scale` (StepInput::inverse_scale). Norms are computed in double,
/// each by one thread.
void clip_adaptive(FlatParameters& parameters, const AdaptiveClipOptions& options, double inverse_scale = 1);

}  // namespace binade::optim
