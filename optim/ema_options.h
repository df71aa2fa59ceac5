#pragma once

namespace binade::optim {

/// Options of averaged weights: the exponential moving average of each weight.
struct EmaOptions {
  double decay = 0.999;
  /// True: the decay of update t (from 1) is min(decay, (1 + t) / (10 + t)), so that early weights are forgotten
  /// sooner.
  bool warmup = false;
  /// True: the average starts from 0 and is divided by 1 - decay^t. False: it starts from the first weights.
  bool debias = false;
};

}  // namespace binade::optim
