#pragma once

namespace binade::optim {

struct EmaOptions {
  double decay = 0.999;
  bool warmup = false;  ///< decay of update t is min(decay, (1 + t) / (10 + t)): early weights fade sooner
  bool debias = false;  ///< start from nothing and divide by 1 - decay^t, instead of starting from the first weights
};

}  // namespace binade::optim
