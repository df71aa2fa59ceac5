#pragma once

#include "binade/nn/module.h"

/// Functions that set the initial values of a parameter. Each call draws from the next init stream of the Runtime, so
/// that the seed and the order of calls determine the bits. Weights are (out, …, in): Linear (out, in), Conv2d
/// (K, R, S, C / groups). fan_in is the product of all extents but the first, fan_out that of all but the last. As in
/// PyTorch, this also holds for the weight (C, R, S, K / groups) of a transposed convolution.
namespace binade::nn::init {

/// Selects fan_in or fan_out.
enum class FanMode { kIn, kOut };

/// fan_in and fan_out of a weight.
struct Fans {
  std::int64_t in = 0, out = 0;
};
/// Returns fan_in and fan_out of a weight. Throws ShapeError if its rank is below 2.
Fans fans(const Shape& weight);

void constant(Parameter& p, double value);
void zeros(Parameter& p);
void ones(Parameter& p);
/// Sets the values to draws from N(mean, std^2).
void normal(Parameter& p, double std = 1, double mean = 0);
/// Sets the values to draws from U[low, high).
void uniform(Parameter& p, double low = 0, double high = 1);

/// Sets the values to draws from N(mean, std^2) between `low` and `high`, by the inverse of the distribution function.
/// Throws ArgumentError unless std > 0, low < high, and the interval has a probability above 0 in double precision.
void trunc_normal(Parameter& p, double std = 1, double mean = 0, double low = -2, double high = 2);
/// Sets a weight (out, …, in), seen as a matrix of `out` rows, to gain times random orthonormal rows or, if there are
/// more rows than columns, columns (Saxe et al., 2014). Computed on the host.
void orthogonal(Parameter& p, double gain = 1);
/// Sets a weight (out, in) to ones on the diagonal and zeros elsewhere: eye_ in PyTorch.
void identity(Parameter& p);

/// Normal or uniform values with mean 0 and variance gain^2 2 / (fan_in + fan_out). Source: Glorot, Bengio, 2010.
void xavier_normal(Parameter& p, double gain = 1);
void xavier_uniform(Parameter& p, double gain = 1);

/// During its lifetime, `normal`, `uniform` and the functions that use them store zeros on this thread. Use it for a
/// model whose weights are loaded afterwards. The init streams advance as usual.
class SkipScope : ScopedValue<bool> {
 public:
  explicit SkipScope(bool skip = true);
};

/// Options of kaiming_normal and kaiming_uniform, which set values with mean 0 and variance 2 / ((1 + slope^2) fan),
/// for layers that a (leaky) ReLU follows. Source: He et al., 2015.
struct KaimingOptions {
  double slope = 0;             ///< slope of the leaky ReLU for negative inputs; 0: ReLU
  FanMode mode = FanMode::kIn;  ///< kIn: fan is fan_in; kOut: fan_out
};
void kaiming_normal(Parameter& p, const KaimingOptions& options = {});
void kaiming_uniform(Parameter& p, const KaimingOptions& options = {});

}  // namespace binade::nn::init
