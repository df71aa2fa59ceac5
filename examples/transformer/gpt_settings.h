#pragma once

#include <cstdint>
#include <string>

#include "examples/common/train_settings.h"
#include "examples/transformer/gpt.h"

namespace binade::examples {

/// Settings of `binade-gpt train`; each member except `train` holds the value of the flag of the same name.
struct GptSettings {
  TrainSettings train{};
  std::string preset = "tiny";
  std::int64_t layers = 0, heads = 0, dim = 0, context = 0;  ///< 0: the value of the preset
  double dropout = 0;
  bool bias = true;
  std::string tokenizer = "byte", attention = "fused";
  bool recompute = false;
};

/// The flags with which `train` makes a run from a file of weights alone, for error texts.
inline constexpr const char* kGptWeightFlags = "--preset gpt2 --tokenizer bpe:tokenizer.json";

/// Adds all settings of `binade-gpt train` to the table.
void add_gpt_settings(Settings& table, GptSettings& s);
/// Fills in the model's shape from the preset and completes the training settings. Throws ArgumentError.
void complete_gpt_settings(GptSettings& s);

/// Returns the model's shape for a vocabulary of `tokens`.
GptOptions gpt_options(const GptSettings& s, std::int64_t tokens);

/// Returns the model's shape as one line of JSON. Checkpoints store it, so that `eval` and `sample` can build the
/// model.
std::string architecture_json(const GptOptions& options);
/// Returns the model's shape from a checkpoint. Throws CheckpointError if it does not describe a transformer.
GptOptions read_gpt_architecture(const StateDict& checkpoint);

}  // namespace binade::examples
