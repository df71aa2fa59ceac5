#pragma once

#include <cstdint>

namespace binade::optim {

/// Arguments of one update. The stored gradients are multiplied by the loss scale and not clipped; the update kernel
/// multiplies them by inverse_scale and clip_factor as it reads them.
struct StepInput {
  bool commit = true;        ///< the verdict; if false, the update changes nothing
  double inverse_scale = 1;  ///< 1 / (loss scale x micro-batches)
  double clip_factor = 1;    ///< factor of clipping by norm (clip_factor() in optim/clip.h); 1: no clipping
  double clip_value = 0;     ///< > 0: each element of an unscaled gradient is clamped to [-clip_value, clip_value]
  double lr = 0;
  std::int64_t step = 0;  ///< number of the step, from 1, for the schedules of groups; 0: that of the next update
  double lr_cut = 1;      ///< factor on the rates of the schedules of groups; `lr` includes it already

  bool operator==(const StepInput&) const = default;
};

}  // namespace binade::optim
