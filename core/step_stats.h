#pragma once

#include <cstdint>

namespace binade {

/// Result of one attempt of a training step, for logs.
struct StepStats {
  std::int64_t step = 0;     ///< number of the update that this attempt was for, from 1
  std::int64_t attempt = 1;  ///< number of the attempt within the step, from 1
  bool committed = false;
  double loss = 0;       ///< mean over the micro-batches, unscaled; may be non-finite if not committed
  double grad_norm = 0;  ///< norm of the unscaled gradients before clipping; may be non-finite if not committed
  double loss_scale = 1;
  double lr = 0;
  std::int64_t skipped_total = 0;  ///< number of attempts that did not commit since the run began
};

}  // namespace binade
