#pragma once

#include "examples/transformer/gpt.h"

namespace binade::examples {

/// Result of the evaluation of a model on a text.
struct TextScore {
  double loss = 0;      ///< mean cross-entropy per token, natural logarithm
  double accuracy = 0;  ///< share of tokens that the most likely prediction matches
  std::int64_t tokens = 0;
};

/// Evaluates a model on all of `tokens` in disjoint windows of the model's context, without gradients and dropout,
/// under the caller's precision policy.
TextScore evaluate(Gpt& model, const io::TokenSequence& tokens, std::int64_t batch);

}  // namespace binade::examples
