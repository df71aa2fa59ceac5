#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "examples/common/command.h"
#include "examples/transformer/gpt.h"

namespace binade::examples {

/// Options of sample().
struct SamplingOptions {
  std::int64_t tokens = 200;  ///< number of tokens to add
  double temperature = 0.8;   ///< divides the logits; 0: always the most likely token
  std::int64_t top_k = 0;     ///< tokens are drawn from the k most likely ones; 0: from all
  std::uint64_t seed = 1;
  bool cache = true;  ///< true: keys and values are kept between tokens, which does not affect the result
};

/// Continues `prompt` (at least one token). Each new token depends on at most the last `context` tokens, and is drawn
/// with a random number that depends only on the seed and on the number of new tokens before it. Calls `on_token` for
/// each new token. Throws ArgumentError for an empty prompt or an option out of range.
std::vector<std::int32_t> sample(Gpt& model, std::vector<std::int32_t> prompt, const SamplingOptions& options,
                                 const std::function<void(std::int32_t)>& on_token = {});

/// Draws from softmax(logits / temperature) restricted to the top_k most likely tokens, by inverting the distribution
/// at u in [0, 1). Throws NumericError if no logit is finite.
std::int32_t draw_token(std::vector<float> logits, double temperature, std::int64_t top_k, double u);

/// Declares the command `sample`, which continues a prompt.
Command add_sample(CLI::App& program);

}  // namespace binade::examples
