#pragma once

#include "binade/autograd/variable.h"

/// Activations and dropouts that are composed of several ops. Those that are a single op are in elementwise.h.
namespace binade {

/// Returns a sigmoid(b), where a and b are the first and second half of x along `axis` (Dauphin et al., "Language
/// modeling with gated convolutional networks", 2017). Throws ShapeError if the extent is odd.
Variable glu(const Variable& x, int axis = -1);

/// softmax(-x).
Variable softmin(const Variable& x, int axis = -1);

/// Drops whole channels: for each sample n and channel c of x (N, …, C), sets x[n, …, c] to 0 with probability p and
/// divides it by 1 - p otherwise (Tompson et al., 2015). The factor is rounded to x's dtype. Throws ShapeError if the
/// rank is below 2, ArgumentError unless p is in [0, 1).
Variable dropout2d(const Variable& x, double p);

/// Sets each element to a = -1.7581, the limit of selu() for small x, with probability p, and then applies the linear
/// function that restores mean 0 and variance 1 of the elements (Klambauer et al., "Self-normalizing neural networks",
/// 2017): y = s (z - a p), s = (1 - p)^(-1/2) (1 + p a^2)^(-1/2), with z = a or x. Throws ArgumentError unless p is in
/// [0, 1).
Variable alpha_dropout(const Variable& x, double p);
/// Like alpha_dropout(), but sets or keeps whole channels x[n, …, c] of x (N, …, C), for each sample n and channel c.
Variable feature_alpha_dropout(const Variable& x, double p);

/// Returns x where x >= 0, else slope x. In training, each slope is a random number, uniform in [lower, upper) (Xu et
/// al., "Empirical evaluation of rectified activations in convolutional network", 2015); in evaluation, it is their
/// mean. Throws ArgumentError unless lower <= upper are finite.
Variable rrelu(const Variable& x, double lower = 1.0 / 8, double upper = 1.0 / 3, bool training = false);

/// Draws differentiable samples from the categorical distributions with logits x along `axis`: the softmax of
/// (x + g) / tau with random g of the standard Gumbel distribution (Jang et al., "Categorical reparameterization with
/// Gumbel-softmax", 2017). With `hard`, the value is 1 at the largest element and 0 elsewhere; the gradient is the same
/// as without `hard`. Computed and stored in f32 (f64 for f64). Throws ArgumentError unless tau > 0 is finite.
Variable gumbel_softmax(const Variable& x, double tau = 1, bool hard = false, int axis = -1);

}  // namespace binade
