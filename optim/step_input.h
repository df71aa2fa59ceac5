#pragma once

namespace binade::optim {

/// Arguments of one update. The gradients are still multiplied by the loss scale and not clipped: the update applies
/// both factors in its own pass.
struct StepInput {
  bool commit = true;        ///< the verdict; false leaves everything unchanged
  double inverse_scale = 1;  ///< 1 / (loss scale x micro-batches)
  double clip_factor = 1;    ///< of clipping by norm
  double clip_value = 0;     ///< > 0: clamps each unscaled gradient to [-clip_value, clip_value]
  double lr = 0;
};

}  // namespace binade::optim
