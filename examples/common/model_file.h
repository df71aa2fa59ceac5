#pragma once

#include <cstdint>
#include <string>

#include "binade.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// Selects the model and the hardware for `eval`, `sample` and `predict`.
struct ModelChoice {
  std::string run{}, checkpoint{}, device = "auto";
  std::int64_t threads = 0;
};
/// Adds --run, --checkpoint, --device and --threads to the table.
void add_model_settings(Settings& table, ModelChoice& choice);
/// Returns the options of --device and --threads.
RuntimeOptions runtime_options(const ModelChoice& choice);

/// Returns the state of the selected checkpoint, and prints on stderr which one was selected and why. Throws
/// ArgumentError if none is given, NoCheckpointError if it does not exist, and CheckpointError if it holds only
/// weights. The text of that error tells the user to start a run from the weights by `PROGRAM train` with `flags`.
StateDict read_checkpoint(const ModelChoice& choice, const std::string& program, const std::string& flags);

/// Returns the precision policy that the checkpoint was trained with.
PrecisionPolicy policy_of(const StateDict& checkpoint);

/// Returns a text that lists all modules with their kinds, parameters with their shapes, and ops with their paths.
std::string describe_modules(nn::Module& model, const Variable& output);

/// Settings of `eval`: the model and the data to evaluate it on.
struct EvalSettings {
  ModelChoice model{};
  TrainSettings data{};  ///< only the paths of the data and the batch size are used
};

/// Adds all settings of `eval` to the table.
void add_eval_settings(Settings& table, EvalSettings& s);

/// Applies the flags. --data, --val-data and --val-fraction default to the values that the run was trained with or,
/// without --run, to the program's defaults. `stored` is the table of `trained`, the program's training settings.
void resolve_eval_settings(Settings& table, EvalSettings& s, Settings& stored, const TrainSettings& trained);

}  // namespace binade::examples
