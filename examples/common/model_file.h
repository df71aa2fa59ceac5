#pragma once

#include <cstdint>
#include <string>

#include "binade.h"
#include "examples/common/settings.h"

namespace binade::examples {

/// Selects the model for `eval`, `sample` and `predict`: --run and --checkpoint.
struct ModelChoice {
  std::string run{}, checkpoint{};
};
void add_model_choice(Settings& table, ModelChoice& choice);

/// Returns the state of the selected checkpoint, and prints on stderr which one was selected and why. Throws
/// ArgumentError when none is named, NoCheckpointError when it does not exist, and CheckpointError when it holds
/// weights alone: that message names `flags`, with which `train` of `program` makes a run of those weights.
StateDict read_checkpoint(const ModelChoice& choice, const std::string& program, const std::string& flags);

/// Weights and statistics of a checkpoint into a model: the averaged weights where the run kept any and `averaged` is
/// on.
void load_model(nn::Module& model, const StateDict& checkpoint, bool averaged = true);

/// Weights alone, from a checkpoint or a .safetensors file whose names are the model's (`binade-doctor import` makes
/// one from PyTorch's and Hugging Face's). Throws CheckpointError listing both sides when they do not fit.
void load_weights(nn::Module& model, const std::string& path);

/// Writes every parameter and statistic of a model to a safetensors file, with the model's names and layouts;
/// load_weights() reads it back. Throws StorageError.
void write_weights(nn::Module& model, const std::string& path);

/// The policy that the checkpoint was trained under.
PrecisionPolicy policy_of(const StateDict& checkpoint);

/// Throws ArgumentError for the first override that matches no module path and no op on the way to `output`.
void check_overrides(const PrecisionPolicy& policy, nn::Module& model, const Variable& output);

/// Every module path with its kind, every parameter with its shape, and every op with its path, as lines for people.
std::string describe_modules(nn::Module& model, const Variable& output);

}  // namespace binade::examples
