#include "binade/amp/preflight/preflight.h"
#include "binade/amp/step/trainer.h"

namespace binade::amp {

PreflightReport Trainer::run_preflight(const std::function<Variable()>& closure) {
  LossScaleOptions scale = scaler_.options();
  if (scaler_.adjustable()) scale.init_scale = scaler_.scale();
  return amp::preflight({.model = model_,
                         .optimizer = optimizer_,
                         .policy = ladder_.applied_to(options_.precision),
                         .loss_scale = scale,
                         .lr = options_.schedule ? options_.schedule->options().lr : optimizer_.lr(),
                         .ema_decay = options_.ema ? options_.ema->decay : 0,
                         .at = {.seed = runtime_.seed(), .step = static_cast<std::uint64_t>(steps_ + 1)}},
                        closure);
}

}  // namespace binade::amp
