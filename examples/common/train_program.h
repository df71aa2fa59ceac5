#pragma once

#include <functional>
#include <string>

#include "examples/common/program.h"

namespace binade::examples {

/// Settles where a training's settings come from, in this order: defaults, the run's config.json (with --resume) or
/// --config, then flags. `complete` fills what follows from them. Throws as Settings and io/run_folder do.
void settle_settings(Settings& table, TrainSettings& s, const std::function<void()>& complete);

/// The plan that the settings describe. `name` begins the name of a new run folder.
amp::RunPlan make_plan(const std::string& program, const std::string& name, const Settings& table,
                       const TrainSettings& s, const Runtime& runtime);

amp::TrainerOptions trainer_options(const TrainSettings& s, const amp::Policy& policy);

/// What every checkpoint of a run repeats: the hash of its data and the model's shape.
StateDict run_constants(const std::string& content, const std::string& architecture);
/// Throws DataError when a checkpoint was trained on other data, CheckpointError when it holds another model.
void check_run_constants(const StateDict& checkpoint, const StateDict& run);

/// run_training(), with the lines a person wants at the end, and the exit code.
int train_and_tell(const std::string& program, const amp::RunPlan& plan, amp::Trainer& trainer,
                   const amp::RunTask& task);

}  // namespace binade::examples
