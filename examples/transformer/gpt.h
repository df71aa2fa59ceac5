#pragma once

#include <cstdint>
#include <vector>

#include "binade.h"

namespace binade::examples {

/// Shape of a GPT-2-class transformer.
struct GptOptions {
  std::int64_t layers = 4, heads = 4, dim = 128, context = 64;
  std::int64_t vocabulary = 256;  ///< what the tokenizer knows
  std::int64_t table = 256;       ///< rows of the token table, >= vocabulary; the rest is padding
  double dropout = 0;
  bool bias = true;        ///< in linear layers; norms always have theirs
  bool composed = false;   ///< attention as matmul, softmax, matmul instead of one op
  bool tanh_gelu = false;  ///< GPT-2's GELU; the exact one else
  bool recompute = false;  ///< blocks run twice instead of keeping their activations
};

/// x (B, T, C) -> (B, T, C): pre-norm attention and MLP, each added to the residual stream.
struct GptBlock : nn::Module {
  nn::LayerNorm norm1, norm2;
  nn::MultiHeadAttention attention;
  nn::Mlp mlp;

  explicit GptBlock(const GptOptions& options);
  void visit(nn::Visitor& v) override;
  std::string kind() const override { return "GptBlock"; }
  Variable forward(const Variable& x) override;
  /// The same for the next tokens after those in `cache`.
  Variable forward(const Variable& x, nn::AttentionCache& cache);
};

/// Tokens (B, T) -> logits (B, T, V). The head shares the token table. Initialized as GPT-2: N(0, 0.02), the
/// projections that write into the residual stream N(0, 0.02 / sqrt(2 layers)), biases 0.
class Gpt : public nn::Module {
 public:
  explicit Gpt(const GptOptions& options);

  void visit(nn::Visitor& v) override;
  std::string kind() const override { return "Gpt"; }
  Variable operator()(const Tensor& tokens);

  /// Keys and values of every block, for sampling token by token.
  struct Cache {
    std::vector<nn::AttentionCache> blocks{};
    std::int64_t length = 0;
  };
  /// Logits of the next tokens after those in `cache`, which grows. Throws ArgumentError beyond the context.
  Variable next(const Tensor& tokens, Cache& cache);

  const GptOptions& options() const { return options_; }

 private:
  Variable embed(const Tensor& tokens, std::int64_t first_position);
  Variable logits(const Variable& x);

  /// `first`, `first` + 1, ... on `device`: brought there once, so that a step copies nothing from the host.
  Tensor places(std::int64_t first, std::int64_t length, Device device);

  GptOptions options_;
  Tensor places_;  // 0, 1, ... context - 1
  nn::Embedding tokens_, positions_;
  nn::Dropout dropout_;
  nn::ModuleList<GptBlock> blocks_;
  nn::LayerNorm norm_;
};

}  // namespace binade::examples
