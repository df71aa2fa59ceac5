#include "binade/amp/step/phase_preflight.h"

#include "binade/amp/preflight/preflight.h"
#include "binade/amp/step/registration.h"
#include "binade/amp/step/transaction.h"

namespace binade::amp {

PreflightReport preflight_phases(const Transaction& transaction, const StepFeed& feed) {
  LossScaleOptions scale = transaction.scaler().options();
  if (transaction.scaler().adjustable()) scale.init_scale = transaction.scaler().scale();
  PreflightReport report;
  for (std::size_t phase = 0; phase < feed.phases.size(); ++phase)
    for (const std::size_t i : transaction.indices_of(feed.phases[phase])) {
      const optim::Ema* averages = transaction.averages()[i];
      report.add(amp::preflight(
          {.model = transaction.model(),
           .optimizer = *transaction.optimizers()[i],
           .policy = transaction.policy(),
           .loss_scale = scale,
           .lr = transaction.highest_lr(i),
           .ema_decay = averages != nullptr ? averages->options().decay : 0,
           .at = {.seed = transaction.seed(), .step = static_cast<std::uint64_t>(transaction.next_step())},
           .excluded = untrained_by(transaction, std::span(&i, 1))},
          [&] { return feed.loss(static_cast<int>(phase), feed.first, {}); }));
    }
  return report;
}

}  // namespace binade::amp
