#pragma once

#include <memory>
#include <string>

#include "binade/core/precision.h"
#include "binade/core/state_dict.h"
#include "binade/io/checkpoint/find.h"
#include "binade/io/text/tokenizer.h"
#include "binade/nn/module.h"
#include "binade/run/model_files/weights.h"

namespace binade {

/// The contents of a model file besides parameters and statistics.
struct ModelDescription {
  std::string architecture{};                ///< any text from which a program can construct the model, such as JSON
  const io::Tokenizer* tokenizer = nullptr;  ///< tokenizer of a model that reads text
  PrecisionPolicy policy{};                  ///< the dtypes in which the model is to compute
};

/// Writes a model file: everything that inference needs, in one file. It is a checkpoint (docs/checkpoints.md) without
/// training state, so all programs and functions that read checkpoints read it. Replaces an existing file atomically.
/// Throws StorageError; NumericError if a weight is NaN or infinite.
///
///     save_model(model, "names.h5", {.architecture = R"({"width": 64})", .tokenizer = tokenizer.get()});
void save_model(nn::Module& model, const std::string& path, const ModelDescription& description = {});

/// Writes the model file of a run: last weights and averages, statistics, precision policy and, if the program stored
/// them in its checkpoints, architecture and tokenizer. `run` is a checkpoint, or a run folder in which `choice`
/// selects the checkpoint. Throws CheckpointError if it holds no weights, the errors of load_weights(), and
/// StorageError.
void extract_model(const std::string& run, const std::string& path, const io::CheckpointChoice& choice = {},
                   const io::Warn& say = io::warn_on_stderr);
/// Writes the model file of a checkpoint that was read before; `name` is for messages.
void extract_model(const StateDict& checkpoint, const std::string& path, const std::string& name = "checkpoint");

/// A model file that was read and checked.
///
///     const ModelFile file("names.h5");
///     Net model(file.architecture());             // the program's own constructor
///     file.load(model);
///     const auto tokenizer = file.tokenizer();
///     const PolicyScope policy(file.policy());
class ModelFile {
 public:
  /// Reads a model file. Also reads a checkpoint, or a run folder in which `choice` selects the checkpoint. Throws
  /// NoCheckpointError if there is none or it is damaged, CheckpointError if it holds no weights.
  explicit ModelFile(const std::string& path, const io::CheckpointChoice& choice = {},
                     const io::Warn& say = io::warn_on_stderr);

  /// Returns the text from which the model is constructed. Throws CheckpointError if the file has none.
  const std::string& architecture() const;
  /// Returns the tokenizer. Throws CheckpointError if the file has none.
  std::unique_ptr<io::Tokenizer> tokenizer() const;
  /// Returns the dtypes in which the model computed, fp32 if the file states none. Throws CheckpointError for a text
  /// that is not a policy.
  PrecisionPolicy policy() const;
  /// Loads the weights and statistics, and throws, as load_weights() does. `options.checkpoint` has no effect, because
  /// the file was read before.
  LoadedWeights load(nn::Module& model, const WeightsOptions& options = {}) const;

 private:
  std::string path_;
  StateDict state_;
};

}  // namespace binade
