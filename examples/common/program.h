#pragma once

#include <memory>
#include <string>

#include "binade.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// config.json of a run: every setting in force, and what it runs on.
std::string config_text(const std::string& program, const Settings& table, const Runtime& runtime);

/// The policy that --precision and --override name. An empty precision is chosen (bf16 where the processor multiplies
/// it, else fp32), written into `s`, and said once.
amp::Policy choose_policy(TrainSettings& s);

amp::LossScaleOptions loss_scale_options(const TrainSettings& s, const amp::Policy& policy);
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainSettings& s, nn::Module& model);
optim::Schedule make_schedule(const TrainSettings& s);

/// --device, --seed, --threads, --deterministic and --plans.
RuntimeOptions runtime_options(const TrainSettings& s);

/// The device that --device names. "auto" without a GPU is the CPU, said once with the reason.
Device choose_device(const std::string& name);

}  // namespace binade::examples
