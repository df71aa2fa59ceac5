#include "binade/amp/step/options.h"

#include "binade/amp/step/step_graphs.h"
#include "binade/core/communicator.h"
#include "binade/core/error.h"

namespace binade::amp {

TrainerOptions checked(TrainerOptions o) {
  check<ArgumentError>(o.clip_norm >= 0 && o.clip_value >= 0 && o.clip_adaptive >= 0,
                       "trainer: wanted clip bounds >= 0, got norm {}, value {} and adaptive {}", o.clip_norm,
                       o.clip_value, o.clip_adaptive);
  check<ArgumentError>((o.clip_norm > 0) + (o.clip_value > 0) + (o.clip_adaptive > 0) <= 1,
                       "trainer: clip_norm, clip_value and clip_adaptive are alternatives; set one");
  check<ArgumentError>(o.accumulate >= 1 && o.steps >= 0,
                       "trainer: wanted accumulate >= 1 and steps >= 0, got {} and {}", o.accumulate, o.steps);
  check<ArgumentError>(o.leaves >= 0, "trainer: wanted leaves >= 0, got {}", o.leaves);
  if (!o.ranks) o.ranks = alone();
  check<ArgumentError>(o.verify_every >= 0, "trainer: wanted verify_every >= 0, got {}", o.verify_every);
  check<ArgumentError>(o.ahead >= 0 && o.ahead <= static_cast<std::int64_t>(StepGraphs::kMaxInFlight),
                       "trainer: wanted 0 to {} steps ahead, got {}", StepGraphs::kMaxInFlight, o.ahead);
  return o;
}

}  // namespace binade::amp
