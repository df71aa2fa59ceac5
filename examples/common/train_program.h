#pragma once

#include <functional>
#include <memory>
#include <string>

#include "binade.h"
#include "examples/common/optimizers.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// Returns the text of a run's config.json: all settings, versions and hardware.
std::string config_text(const std::string& program, const Settings& table, const Runtime& runtime);

/// Returns the policy of --precision and --override. If no precision is given, chooses bf16 if the hardware has bf16
/// products, otherwise fp32, stores the choice in `s` and prints it.
amp::Policy choose_policy(TrainSettings& s);

/// Returns the options of --loss-scale and --init-scale.
amp::LossScaleOptions loss_scale_options(const TrainSettings& s, const amp::Policy& policy);
/// Makes the learning-rate schedule of --schedule.
optim::Schedule make_schedule(const TrainSettings& s);

/// Returns the options of --device, --seed, --threads (0: this rank's share of the cores), --deterministic and --plans.
RuntimeOptions runtime_options(const TrainSettings& s);

/// Returns the device of --device; several ranks of a machine share its GPUs evenly. "auto" without a GPU selects the
/// CPU and prints the reason.
Device choose_device(const std::string& name);

/// Determines the settings of a training: defaults, then the run's config.json (if the run is resumed) or --config,
/// then flags. Sets `loads_checkpoint`. `complete` fills in the settings that follow from others. Throws the errors
/// of Settings and io::RunFolder.
void resolve_settings(Settings& table, TrainSettings& s, const std::function<void()>& complete);

/// Runs `train` in this process or, with --supervise, in a child process that is restarted when it dies
/// (run/supervisor.h). With --ranks, starts the program again as several processes under mpirun (run/launch.h); throws
/// ArgumentError if not `may_have_ranks`. `name` is the prefix of a new run folder.
int run_training(Settings& table, TrainSettings& s, const std::string& name, bool may_have_ranks,
                 const std::function<int()>& train);

/// Connects this process with the others of its launcher (core/launcher.h). From then on, ranks other than 0 print
/// only errors. `deadline`: of each exchange, in seconds; 0: the default.
std::shared_ptr<Communicator> open_ranks(double deadline);

/// Returns the options of the run that the settings describe. `name` is the prefix of a new run folder. `constants` are
/// entries that a checkpoint to resume from must hold.
amp::RunOptions run_options(const std::string& program, const std::string& name, const Settings& table,
                            const TrainSettings& s, const Runtime& runtime, const StateDict& constants);

/// Returns the options of the trainer that the settings describe.
amp::TrainerOptions trainer_options(const TrainSettings& s, const amp::Policy& policy,
                                    std::shared_ptr<Communicator> ranks = nullptr);

/// Returns the entries that every checkpoint of a run holds: the hash of its data and the model's architecture.
StateDict run_constants(const std::string& content, const std::string& architecture);

/// Prints the run folder and the command that continues the run. Returns the exit code: 0, or 10 if
/// a signal stopped the run.
int report_end(const TrainSettings& s, const std::string& folder, amp::RunEnd end);

/// Prints the findings of a pre-flight on stderr, with two lines per finding.
void report_preflight(const amp::PreflightReport& report);

/// Analyzes the risks of the first step with the loader's next batch, which the loader returns again afterwards.
template <class Loader, class Closure>
amp::PreflightReport run_preflight(amp::Trainer& trainer, Loader& loader, Closure&& closure) {
  const auto batch = loader.next();
  loader.rewind();
  amp::PreflightReport report = trainer.preflight(batch, closure);
  report_preflight(report);
  return report;
}

/// Prints the report of a pre-flight as one JSON object on stdout. Returns the exit code 0, because findings are
/// advice.
int print_preflight_json(const amp::PreflightReport& report);

/// Implements the sub-command `init`: writes the initial weights of a training to the safetensors file `path` and
/// prints the path and the number of parameters. Throws ArgumentError if the settings name a run (--run, --resume,
/// --supervise), and StorageError.
int write_first_weights(nn::Module& model, const TrainSettings& s, const std::string& path);

/// Opens the run, trains on the batches of `loader` with `closure`, prints a summary and returns the exit code.
template <class Loader, class Closure>
int run_training_loop(const TrainSettings& s, amp::Trainer& trainer, amp::RunOptions options, Loader& loader,
                      Closure&& closure) {
  const std::string folder = options.folder;
  trainer.attach(loader);
  amp::TrainingRun run(trainer, std::move(options));
  bool loaded = s.loads_checkpoint;
  if (s.loads_checkpoint)
    run.resume();
  else if (s.resume == "auto")
    loaded = run.resume_if_possible();
  else
    run.begin();
  if (!loaded) {
    const auto batch = loader.next();
    loader.rewind();
    run.forecast(batch, closure);  // forecasts the run's memory before the pre-flight allocates any
    report_preflight(trainer.preflight(batch, closure));
  }
  for (const auto& batch : run.batches(loader)) run.step(batch, closure);
  return report_end(s, folder, run.end());
}

/// Reads a repro bundle and applies the settings of the run that wrote it to `table`. Throws CheckpointError or
/// ArgumentError.
StateDict open_repro_bundle(const std::string& path, Settings& table);

/// Prints the result of a replay for the user on stderr, and as one JSON object on stdout. Returns the exit code 0.
int report_replay(const amp::ReproReplay& replay);

}  // namespace binade::examples
