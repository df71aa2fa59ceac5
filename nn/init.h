#pragma once

#include "binade/nn/module.h"

/// Initial values. Each call draws from the runtime's next init stream: the seed and the order of the calls fix the
/// bits. Weights are (out, …, in): Linear (out, in), Conv2d (K, R, S, C / groups). The fans are fan_in = product of all
/// extents but the first, fan_out = extent 0 x the extents between first and last; a transposed convolution's (C, R, S,
/// K / groups) follows the same reading, as PyTorch's does.
namespace binade::nn::init {

enum class FanMode { kIn, kOut };

struct Fans {
  std::int64_t in = 0, out = 0;
};
/// Throws ShapeError below rank 2.
Fans fans(const Shape& weight);

void constant(Parameter& p, double value);
void zeros(Parameter& p);
void ones(Parameter& p);
/// N(mean, std^2); U[low, high).
void normal(Parameter& p, double std = 1, double mean = 0);
void uniform(Parameter& p, double low = 0, double high = 1);

/// Glorot, Bengio, 2010: variance gain^2 2 / (fan_in + fan_out).
void xavier_normal(Parameter& p, double gain = 1);
void xavier_uniform(Parameter& p, double gain = 1);

/// While one lives, `normal` and `uniform` and what is built on them draw nothing on this thread and leave zeros: for a
/// model that is about to be loaded, whose values would be drawn in vain. Streams are counted on as if they had been.
class SkipScope {
 public:
  explicit SkipScope(bool skip = true);
  ~SkipScope();
  SkipScope(const SkipScope&) = delete;
  SkipScope& operator=(const SkipScope&) = delete;

 private:
  bool previous_;
};

/// He et al., 2015: variance gain^2 / fan, gain^2 = 2 / (1 + slope^2) for a (leaky) ReLU of that negative slope.
struct KaimingOptions {
  double slope = 0;
  FanMode mode = FanMode::kIn;
};
void kaiming_normal(Parameter& p, const KaimingOptions& options = {});
void kaiming_uniform(Parameter& p, const KaimingOptions& options = {});

}  // namespace binade::nn::init
