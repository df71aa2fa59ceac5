#pragma once

#include <cstdint>
#include <vector>

#include "binade.h"

namespace binade::examples {

/// Shape of a GPT-2-class transformer.
struct GptOptions {
  std::int64_t layers = 4, heads = 4, dim = 128, context = 64;
  std::int64_t vocabulary = 256;  ///< number of the tokenizer's tokens
  std::int64_t table = 256;       ///< rows of the token table, >= vocabulary; the rest is padding
  double dropout = 0;
  bool bias = true;        ///< biases in linear layers; norms always have biases
  bool composed = false;   ///< true: attention as matmul, softmax, matmul instead of one op
  bool tanh_gelu = false;  ///< true: GPT-2's tanh approximation of GELU
  bool recompute = false;  ///< true: recompute activations of blocks in backward instead of keeping them
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
  /// Computes the block for tokens that follow those in `cache`, and adds their keys and values to `cache`.
  Variable forward(const Variable& x, nn::AttentionCache& cache);
};

/// Tokens (B, T) -> logits (B, T, V), with V = GptOptions::table. The head shares the token table. Initialized as
/// GPT-2: N(0, 0.02), projections into the residual stream N(0, 0.02 / sqrt(2 layers)), biases 0.
class Gpt : public nn::Module {
 public:
  explicit Gpt(const GptOptions& options);

  void visit(nn::Visitor& v) override;
  std::string kind() const override { return "Gpt"; }
  Variable operator()(const Tensor& tokens);

  /// Keys and values of every block, for sampling token by token.
  struct Cache {
    std::vector<nn::AttentionCache> blocks{};
    std::int64_t length = 0;  ///< number of tokens in the cache
  };
  /// Returns the logits for `tokens`, which continue those in `cache` and are added to it. Throws ArgumentError if
  /// they would exceed the context.
  Variable next(const Tensor& tokens, Cache& cache);

  const GptOptions& options() const { return options_; }

 private:
  Variable embed(const Tensor& tokens, std::int64_t first_position);
  Variable logits(const Variable& x);

  /// Returns the positions first, first + 1, … (`length` of them) on `device`. They are cached on the device, so that a
  /// step copies nothing from the host.
  Tensor position_ids(std::int64_t first, std::int64_t length, Device device);

  GptOptions options_;
  Tensor position_ids_;  // 0, 1, ... context - 1
  nn::Embedding tokens_, positions_;
  nn::Dropout dropout_;
  nn::ModuleList<GptBlock> blocks_;
  nn::LayerNorm norm_;
};

}  // namespace binade::examples
