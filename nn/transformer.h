#pragma once

#include <optional>
#include <vector>

#include "binade/nn/attention.h"
#include "binade/nn/layer_norm.h"

namespace binade::nn {

/// Options of TransformerEncoderLayer and TransformerDecoderLayer; the defaults are PyTorch's.
struct TransformerLayerOptions {
  std::int64_t dim = 0, heads = 1;
  std::int64_t hidden = 2048;  ///< width of the hidden layer of the feed-forward network
  double dropout = 0.1;        ///< of attention weights, of the hidden layer, and of each sublayer's result
  Activation activation = Activation::kRelu;
  bool norm_first = false;  ///< true: x + sublayer(norm(x)) (pre-norm); false: norm(x + sublayer(x)) (post-norm)
  double eps = 1e-5;        ///< of the norms
  bool bias = true;
  /// Further options of the self-attention, such as causal, kv_heads or rotary. Its dim, heads, dropout and bias are
  /// those of the layer.
  MultiHeadAttentionOptions attention{};
  std::int64_t memory_dim = 0;  ///< of a decoder layer: width of the memory (0: dim)
};

/// A layer of a transformer encoder (Vaswani et al., 2017): x (B, T, dim) -> (B, T, dim) by self-attention and a
/// feed-forward network down(dropout(activation(up(x)))), each with dropout, a residual connection and a norm. With
/// `.attention = {.causal = true}`, a layer of a language model.
class TransformerEncoderLayer : public Module {
 public:
  explicit TransformerEncoderLayer(const TransformerLayerOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "TransformerEncoderLayer"; }
  Variable forward(const Variable& x) override;
  using Module::operator();
  Variable operator()(const Variable& x, const AttentionMasks& masks);
  /// Processes the tokens that follow those in `cache` (MultiHeadAttention).
  Variable operator()(const Variable& x, AttentionCache& cache, const AttentionMasks& masks = {});

  MultiHeadAttention attention;
  Linear up, down;
  LayerNorm norm1, norm2;

 private:
  template <class Attend>
  Variable run(const Variable& x, const Attend& attend);
  Dropout dropout_;
  bool norm_first_;
};

/// The keys and values that a decoder layer keeps while it generates a text: those of its own tokens, and those of the
/// memory, which are computed once.
struct TransformerDecoderCache {
  AttentionCache self{}, memory{};
};

/// The masks of a decoder layer, of its self-attention and of its attention on the memory.
struct TransformerDecoderMasks {
  AttentionMasks self{}, memory{};
};

/// A layer of a transformer decoder: x (B, T, dim) and memory (B, S, memory_dim) -> (B, T, dim) by self-attention,
/// attention on the memory (`cross`) and a feed-forward network. As in PyTorch, the self-attention is causal only on
/// request: `.attention = {.causal = true}`.
class TransformerDecoderLayer : public Module {
 public:
  explicit TransformerDecoderLayer(const TransformerLayerOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "TransformerDecoderLayer"; }
  using Module::operator();
  Variable operator()(const Variable& x, const Variable& memory, const TransformerDecoderMasks& masks = {});
  /// Processes the tokens that follow those in `cache`. The memory is read in the first call only.
  Variable operator()(const Variable& x, const Variable& memory, TransformerDecoderCache& cache,
                      const TransformerDecoderMasks& masks = {});

  MultiHeadAttention attention, cross;
  Linear up, down;
  LayerNorm norm1, norm2, norm3;

 private:
  template <class Attend, class Cross>
  Variable run(const Variable& x, const Attend& attend, const Cross& attend_to_memory);
  Dropout dropout_;
  bool norm_first_;
};

/// Options of TransformerEncoder and TransformerDecoder.
struct TransformerOptions {
  std::int64_t layers = 6;
  TransformerLayerOptions layer{};
  bool norm = false;  ///< true: a layer norm follows the last layer, as pre-norm layers need
};

/// Encoder layers, one after the other, each with its own initial weights.
class TransformerEncoder : public Module {
 public:
  explicit TransformerEncoder(const TransformerOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "TransformerEncoder"; }
  Variable forward(const Variable& x) override;
  using Module::operator();
  Variable operator()(const Variable& x, const AttentionMasks& masks);
  /// Processes the tokens that follow those in the caches, one for each layer; empty at the beginning of a text.
  Variable operator()(const Variable& x, std::vector<AttentionCache>& caches, const AttentionMasks& masks = {});

  ModuleList<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};

/// Decoder layers, one after the other, each with its own initial weights.
class TransformerDecoder : public Module {
 public:
  explicit TransformerDecoder(const TransformerOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "TransformerDecoder"; }
  using Module::operator();
  Variable operator()(const Variable& x, const Variable& memory, const TransformerDecoderMasks& masks = {});
  /// Processes the tokens that follow those in the caches, one for each layer; empty at the beginning of a text.
  Variable operator()(const Variable& x, const Variable& memory, std::vector<TransformerDecoderCache>& caches,
                      const TransformerDecoderMasks& masks = {});

  ModuleList<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
};

/// Options of Transformer. The layers of encoder and decoder have the same options.
struct EncoderDecoderOptions {
  std::int64_t encoder_layers = 6, decoder_layers = 6;
  TransformerLayerOptions layer{};
  /// True: the decoder's self-attention is causal. In PyTorch, the caller passes a mask for this.
  bool causal = true;
};

/// The masks of a Transformer.
struct TransformerMasks {
  AttentionMasks source{};            ///< of the encoder
  TransformerDecoderMasks decoder{};  ///< of the decoder
};

/// Encoder and decoder (Vaswani et al., 2017), each with a layer norm after its last layer, as in PyTorch: source
/// (B, S, dim) and target (B, T, dim) -> (B, T, dim). To generate a text, call `encoder` once and `decoder` with
/// caches.
class Transformer : public Module {
 public:
  explicit Transformer(const EncoderDecoderOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "Transformer"; }
  using Module::operator();
  Variable operator()(const Variable& source, const Variable& target, const TransformerMasks& masks = {});

  TransformerEncoder encoder;
  TransformerDecoder decoder;
};

}  // namespace binade::nn
