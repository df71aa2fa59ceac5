#pragma once

#include <cstdint>
#include <vector>

#include "binade.h"

namespace binade::examples {

/// Shape of a GPT-2-class transformer.
struct GptOptions {
  std::int64_t layers = 4, heads = 4, dim = 128, context = 64;
  std::int64_t vocabulary = 256;  ///< number of tokens that the tokenizer has
  std::int64_t table = 256;       ///< number of rows of the token table, >= vocabulary; further rows are padding
  double dropout = 0;
  bool bias = true;        ///< biases in linear layers; norms always have biases
  bool composed = false;   ///< true: attention is computed by matmul, softmax and matmul instead of one op
  bool tanh_gelu = false;  ///< true: GELU is computed by the tanh approximation, as in GPT-2
  bool recompute = false;  ///< true: activations of blocks are recomputed in backward instead of kept
};

/// A block of the transformer, x (B, T, C) -> (B, T, C). Attention and an MLP each read the normalized residual stream
/// and add their results to it.
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

/// The transformer: maps tokens (B, T) to logits (B, T, V), with V = GptOptions::table. The output layer and the token
/// embedding share one table. Weights are initialized as in GPT-2: from N(0, 0.02^2), in layers whose results are added
/// to the residual stream from N(0, 0.02^2 / (2 layers)); biases are 0.
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

  /// Returns the positions first, first + 1, … (`length` of them) on `device`.
  Tensor position_ids(std::int64_t first, std::int64_t length, Device device);

  GptOptions options_;
  nn::ConstantCache position_ids_;  // 0, 1, ... context - 1
  nn::Embedding tokens_, positions_;
  nn::Dropout dropout_;
  nn::ModuleList<GptBlock> blocks_;
  nn::LayerNorm norm_;
};

}  // namespace binade::examples
