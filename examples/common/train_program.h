#pragma once

#include <functional>
#include <string>

#include "examples/common/program.h"

namespace binade::examples {

/// Determines the settings of a training: defaults, then the run's config.json (if the run is resumed) or --config,
/// then flags. Also determines whether the run loads a checkpoint. `complete` fills in the settings that follow from
/// others. Throws as Settings and io/run_folder do.
void settle_settings(Settings& table, TrainSettings& s, const std::function<void()>& complete);

/// Runs `train` here or, with --supervise, in a child process that is started again when it dies (run/supervisor.h).
/// `name` begins the name of a new run folder.
int run_training(Settings& table, TrainSettings& s, const std::string& name, const std::function<int()>& train);

/// The run that the settings describe. `name` begins the name of a new run folder. `constants` is what a checkpoint to
/// resume from must hold.
amp::RunOptions run_options(const std::string& program, const std::string& name, const Settings& table,
                            const TrainSettings& s, const Runtime& runtime, const StateDict& constants);

amp::TrainerOptions trainer_options(const TrainSettings& s, const amp::Policy& policy);

/// What every checkpoint of a run repeats: the hash of its data and the model's shape.
StateDict run_constants(const std::string& content, const std::string& architecture);

/// Prints the run folder and the command that goes on with it. The exit code: 0, or 10 when it was preempted.
int tell_end(const TrainSettings& s, const std::string& folder, amp::RunEnd end);

/// Says on the terminal what a pre-flight found, two lines each.
void tell_preflight(const amp::PreflightReport& report);

/// What is risky about the first step, judged by the loader's next batch, which comes again afterwards.
template <class Loader, class Closure>
amp::PreflightReport preflight_and_tell(amp::Trainer& trainer, Loader& loader, Closure&& closure) {
  const auto batch = loader.next();
  loader.rewind();
  amp::PreflightReport report = trainer.preflight(batch, closure);
  tell_preflight(report);
  return report;
}

/// What the sub-command `preflight` does: the same, and the report as one JSON object on stdout. Findings are advice:
/// the exit code is 0.
int tell_as_json(const amp::PreflightReport& report);

/// The sub-command `init`: writes `model`, as a training would start with it, to the safetensors file `path`, and
/// prints the file's path and the number of parameters on stdout. Throws ArgumentError if the settings ask for a run
/// (--run, --resume, --supervise), and StorageError.
int write_first_weights(nn::Module& model, const TrainSettings& s, const std::string& path);

/// Opens the run, goes through the batches of `loader` with `closure`, says at the end what a person wants to know, and
/// returns the exit code.
template <class Loader, class Closure>
int train_and_tell(const TrainSettings& s, amp::Trainer& trainer, amp::RunOptions options, Loader& loader,
                   Closure&& closure) {
  const std::string folder = options.folder;
  trainer.attach(loader);
  amp::TrainingRun run(trainer, std::move(options));
  bool loaded = s.loads;
  if (s.loads)
    run.resume();
  else if (s.resume == "auto")
    loaded = run.resume_if_possible();
  else
    run.begin();
  if (!loaded) {
    const auto batch = loader.next();
    loader.rewind();
    run.forecast(batch, closure);  // before a pre-flight needs the memory
    tell_preflight(trainer.preflight(batch, closure));
  }
  for (const auto& batch : run.batches(loader)) run.step(batch, closure);
  return tell_end(s, folder, run.end());
}

}  // namespace binade::examples
