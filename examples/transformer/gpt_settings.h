#pragma once

#include <cstdint>
#include <string>

#include "examples/common/train_settings.h"
#include "examples/transformer/gpt.h"

namespace binade::examples {

/// What `binade-gpt train` takes beside the shared settings.
struct GptSettings {
  TrainSettings train{};
  std::string preset = "tiny";
  std::int64_t layers = 0, heads = 0, dim = 0, context = 0;  ///< 0: the preset's
  double dropout = 0;
  bool bias = true;
  std::string tokenizer = "byte", attention = "fused";
  bool recompute = false;
};

/// The flags that `train` needs to make a run of a file of weights alone; for people.
inline constexpr const char* kGptRunOfWeights = "--preset gpt2 --tokenizer bpe:tokenizer.json";

void add_gpt_settings(Settings& table, GptSettings& s);
/// Fills shapes from the preset and the rest from train's rules. Throws ArgumentError.
void complete_gpt_settings(GptSettings& s);

/// The model's shape for a vocabulary of `tokens`.
GptOptions gpt_options(const GptSettings& s, std::int64_t tokens);

/// Shape as one line of JSON, kept in checkpoints: what `eval` and `sample` rebuild the model from.
std::string architecture_json(const GptOptions& options);
/// The inverse. Throws CheckpointError when it describes no transformer.
GptOptions read_gpt_architecture(const StateDict& checkpoint);

}  // namespace binade::examples
