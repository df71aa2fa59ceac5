#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/core/state_dict.h"
#include "binade/io/checkpoint/find.h"
#include "binade/nn/module.h"

namespace binade {

/// Options of load_weights().
struct WeightsOptions {
  /// True: loads the averaged weights (optim/ema.h, schedule-free AdamW), an error if there are none. False: loads the
  /// weights of the last step. std::nullopt: loads the averages if there are any, as the evaluations of the run did,
  /// and tells `say`.
  std::optional<bool> average{};
  io::CheckpointChoice checkpoint{};  ///< in a run folder: the best if any has a score, else the newest
  bool strict = true;                 ///< false: missing and unexpected tensors are returned, not thrown
  io::Warn say = io::warn_on_stderr;  ///< receives a line about each choice that the caller left open
};

/// The result of load_weights().
struct LoadedWeights {
  std::string file{};      ///< the file
  bool averaged = false;   ///< true: the averages of all parameters that have one
  nn::LoadResult names{};  ///< names that only the file or only the model has; empty if strict
};

/// Loads only the weights and statistics of a model: for inference, or as the start of another run. `path` is a
/// checkpoint, a run folder (or the folder checkpoints/ in one), or a safetensors file of save_weights() with the
/// model's own names and layouts (load_pytorch() reads files of PyTorch). Weights that a run stored in 16 bits become
/// f32, which has the same values. No optimizer or trainer is needed:
///
///     Net model;
///     load_weights(model, "runs/shakespeare");
///     model.eval();
///     const InferenceMode inference;
///     const Variable y = model(x);
///
/// Throws CheckpointError, and changes nothing, for missing, unexpected and different tensors, all of which it lists;
/// NoCheckpointError if there is no intact checkpoint; DataError for a safetensors file that cannot be read.
LoadedWeights load_weights(nn::Module& model, const std::string& path, const WeightsOptions& options = {});
/// Loads from the state of a checkpoint that was read before; `name` is for messages.
LoadedWeights load_weights(nn::Module& model, const StateDict& checkpoint, const WeightsOptions& options = {},
                           const std::string& name = "checkpoint");

/// Writes every parameter and statistic of a model to a safetensors file, with the model's names and layouts. Throws
/// StorageError.
void save_weights(nn::Module& model, const std::string& path);

}  // namespace binade
