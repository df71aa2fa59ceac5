#pragma once

#include "binade/optim/flat_parameters.h"
#include "binade/optim/gradient_scan.h"

namespace binade::optim {

/// The factor that brings gradients of norm `norm` down to `max_norm`: min(1, max_norm / (norm + 1e-6)), as PyTorch's
/// clip_grad_norm_. The optimizer applies it in its own pass (StepInput::clip_factor).
/// Throws NumericError when the norm is not finite: there is no factor that makes such a gradient right.
double clip_factor(double norm, double max_norm);

/// For loops of one's own: scales all gradients in place so that their norm is at most `max_norm`, and returns the norm
/// before. Throws NumericError naming the parameter when one is not finite; gradients are left as they are.
double clip_by_norm(FlatParameters& parameters, double max_norm);

/// Clamps each element to [-limit, limit], in place. NaN stays NaN.
void clip_by_value(FlatParameters& parameters, double limit);

struct AdaptiveClipOptions {
  double limit = 0.01;  ///< largest ratio of gradient norm to weight norm
  double floor = 1e-3;  ///< norms of weights count as at least this
};

/// Adaptive clipping (Brock et al., "High-performance large-scale image recognition without normalization", ICML 2021,
/// eq. 3), in place: the gradient of each unit is brought down to limit * max(|w|, floor) where its norm is larger. A
/// unit is one row of the first dimension; a vector is one unit. `inverse_scale`: gradients are compared after this
/// factor. Norms are computed in double, each by one thread.
void clip_adaptive(FlatParameters& parameters, const AdaptiveClipOptions& options, double inverse_scale = 1);

}  // namespace binade::optim
