#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "examples/transformer/gpt.h"

namespace binade::examples {

struct SamplingOptions {
  std::int64_t tokens = 200;  ///< how many to add
  double temperature = 0.8;   ///< 0: always the likeliest
  std::int64_t top_k = 0;     ///< draw from the k likeliest only; 0: from all
  std::uint64_t seed = 1;
  bool cache = true;  ///< keep keys and values between tokens; the tokens are the same without
};

/// Continues `prompt` (at least one token). Each new token sees at most the last `context` ones. Token i is drawn with
/// a number that depends on (seed, i) alone. `on_token` is called for each new token as it comes. Throws ArgumentError
/// on an empty prompt or an option out of range.
std::vector<std::int32_t> sample(Gpt& model, std::vector<std::int32_t> prompt, const SamplingOptions& options,
                                 const std::function<void(std::int32_t)>& on_token = {});

/// Draws from softmax(logits / temperature) restricted to the top_k likeliest, by inverting the distribution at u in
/// [0, 1). Throws NumericError when no logit is finite.
std::int32_t draw_token(std::vector<float> logits, double temperature, std::int64_t top_k, double u);

}  // namespace binade::examples
