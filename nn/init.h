#pragma once

#include "binade/nn/module.h"

/// Initial values. Each call draws from the runtime's next init stream, so that the seed and the order of calls
/// determine the bits. Weights are (out, …, in): Linear (out, in), Conv2d (K, R, S, C / groups). fan_in is the product
/// of all extents but the first, fan_out that of all but the last, also for a transposed convolution's (C, R, S, K /
/// groups), as in PyTorch.
namespace binade::nn::init {

enum class FanMode { kIn, kOut };

struct Fans {
  std::int64_t in = 0, out = 0;
};
/// Throws ShapeError for ranks below 2.
Fans fans(const Shape& weight);

void constant(Parameter& p, double value);
void zeros(Parameter& p);
void ones(Parameter& p);
/// N(mean, std^2), and U[low, high).
void normal(Parameter& p, double std = 1, double mean = 0);
void uniform(Parameter& p, double low = 0, double high = 1);

/// Glorot, Bengio, 2010: variance gain^2 2 / (fan_in + fan_out).
void xavier_normal(Parameter& p, double gain = 1);
void xavier_uniform(Parameter& p, double gain = 1);

/// During its lifetime, `normal`, `uniform` and the functions that use them store zeros on this thread: for a model
/// that is loaded afterwards. The init streams advance as usual.
class SkipScope : ScopedValue<bool> {
 public:
  explicit SkipScope(bool skip = true);
};

/// He et al., 2015: variance gain^2 / fan, gain^2 = 2 / (1 + slope^2) for a (leaky) ReLU with this negative slope.
struct KaimingOptions {
  double slope = 0;
  FanMode mode = FanMode::kIn;
};
void kaiming_normal(Parameter& p, const KaimingOptions& options = {});
void kaiming_uniform(Parameter& p, const KaimingOptions& options = {});

}  // namespace binade::nn::init
