#pragma once

#include <functional>
#include <string>

#include "examples/common/program.h"

namespace binade::examples {

/// Settles where a training's settings come from, in this order: defaults, the run's config.json (with --resume) or
/// --config, then flags. `complete` fills what follows from them. Throws as Settings and io/run_folder do.
void settle_settings(Settings& table, TrainSettings& s, const std::function<void()>& complete);

/// The run that the settings describe. `name` begins the name of a new run folder. `constants` is what a checkpoint to
/// resume from must hold.
amp::RunOptions run_options(const std::string& program, const std::string& name, const Settings& table,
                            const TrainSettings& s, const Runtime& runtime, const StateDict& constants);

amp::TrainerOptions trainer_options(const TrainSettings& s, const amp::Policy& policy);

/// What every checkpoint of a run repeats: the hash of its data and the model's shape.
StateDict run_constants(const std::string& content, const std::string& architecture);

/// Prints the run folder and the command that goes on with it. The exit code: 0, or 10 when it was preempted.
int tell_end(const TrainSettings& s, const std::string& folder, amp::RunEnd end);

/// Opens the run, goes through the batches of `loader` with `maths`, says at the end what a person wants to know, and
/// returns the exit code.
template <class Loader, class Maths>
int train_and_tell(const TrainSettings& s, amp::Trainer& trainer, amp::RunOptions options, Loader& loader,
                   Maths&& maths) {
  const std::string folder = options.folder;
  trainer.attach(loader);
  amp::TrainingRun run(trainer, std::move(options));
  s.resume ? run.resume() : run.begin();
  for (const auto& batch : run.batches(loader)) run.step(batch, maths);
  return tell_end(s, folder, run.end());
}

}  // namespace binade::examples
