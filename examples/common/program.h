#pragma once

#include <memory>
#include <string>

#include "binade.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// Returns the text of a run's config.json: all settings, versions and hardware.
std::string config_text(const std::string& program, const Settings& table, const Runtime& runtime);

/// Returns the policy of --precision and --override. If no precision is given, chooses bf16 if the hardware multiplies
/// it, otherwise fp32, stores the choice in `s` and prints it.
amp::Policy choose_policy(TrainSettings& s);

amp::LossScaleOptions loss_scale_options(const TrainSettings& s, const amp::Policy& policy);
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainSettings& s, nn::Module& model);
optim::Schedule make_schedule(const TrainSettings& s);

/// Returns the options of --device, --seed, --threads, --deterministic and --plans.
RuntimeOptions runtime_options(const TrainSettings& s);

/// Returns the device of --device. "auto" without a GPU selects the CPU and prints the reason.
Device choose_device(const std::string& name);

}  // namespace binade::examples
