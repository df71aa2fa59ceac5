#pragma once

#include <cstdint>

namespace binade {

/// What one training step returns: plain numbers, handed by the caller to a sink (JSON lines, TensorBoard, a bar).
struct StepStats {
  std::int64_t step = 0;     ///< the update this attempt was for, from 1
  std::int64_t attempt = 1;  ///< of this step, from 1
  bool committed = false;
  double loss = 0;       ///< mean over the micro-batches, unscaled; may be non-finite when not committed
  double grad_norm = 0;  ///< unscaled, before clipping; may be non-finite when not committed
  double loss_scale = 1;
  double lr = 0;
  std::int64_t skipped_total = 0;  ///< aborted attempts in the run's life
};

}  // namespace binade
