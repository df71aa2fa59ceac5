#pragma once

#include "binade/autograd/variable.h"

/// Activations and dropouts that are composed of ops. Those that are ops of their own are in elementwise.h.
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
/// The same for whole channels of x (N, …, C): sets x[n, …, c] to a, or keeps it, for each sample n and channel c.
Variable feature_alpha_dropout(const Variable& x, double p);

}  // namespace binade
