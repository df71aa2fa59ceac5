#pragma once

#include "examples/transformer/gpt.h"

namespace binade::examples {

struct TextScore {
  double loss = 0;      ///< mean cross-entropy per token, natural logarithm
  double accuracy = 0;  ///< share of tokens that the likeliest guess hits
  std::int64_t tokens = 0;
};

/// Reads the whole of `tokens` in windows of the model's context that do not overlap. No gradient, no dropout; the
/// policy in force is the caller's.
TextScore evaluate(Gpt& model, const io::TokenSequence& tokens, std::int64_t batch);

}  // namespace binade::examples
