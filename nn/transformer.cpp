#include "binade/nn/transformer.h"

#include "binade/core/error.h"

namespace binade::nn {
namespace {

constexpr std::int64_t kMostLayers = 1 << 20;

MultiHeadAttentionOptions self_attention(const TransformerLayerOptions& o) {
  MultiHeadAttentionOptions all = o.attention;
  all.dim = o.dim;
  all.heads = o.heads;
  all.dropout = o.dropout;
  all.bias = o.bias;
  return all;
}

MultiHeadAttentionOptions cross_attention(const TransformerLayerOptions& o) {
  return {.dim = o.dim,
          .heads = o.heads,
          .kv_heads = o.attention.kv_heads,
          .dropout = o.dropout,
          .bias = o.bias,
          .composed = o.attention.composed,
          .key_dim = o.memory_dim,
          .value_dim = o.memory_dim,
          .head_dim = o.attention.head_dim,
          .value_head_dim = o.attention.value_head_dim};
}

LayerNormOptions norm_of(const TransformerLayerOptions& o) { return {.dim = o.dim, .eps = o.eps, .bias = o.bias}; }
LinearOptions up_of(const TransformerLayerOptions& o) {
  return {.in = o.dim, .out = o.hidden, .bias = o.bias, .activation = o.activation};
}
LinearOptions down_of(const TransformerLayerOptions& o) { return {.in = o.hidden, .out = o.dim, .bias = o.bias}; }

void check_layers(const TransformerOptions& o, const char* kind) {
  check<ArgumentError>(o.layers > 0 && o.layers <= kMostLayers, "{}: wanted 1 to {} layers, got {}", kind, kMostLayers,
                       o.layers);
}

bool is_empty(const AttentionMasks& masks) { return !masks.mask.defined() && !masks.key_mask.defined(); }

/// Calls an attention. If there are no masks, passes x alone, because only such calls run the hooks of the attention.
Variable attend(MultiHeadAttention& attention, const Variable& x, const AttentionMasks& masks) {
  return is_empty(masks) ? attention(x) : attention(x, masks);
}

/// Creates one cache for each layer if there are none. Otherwise checks their number.
template <class Cache>
void fit(std::vector<Cache>& caches, std::size_t layers, const std::string& kind) {
  if (caches.empty()) caches.resize(layers);
  check<ArgumentError>(caches.size() == layers, "{}: wanted {} caches, one for each layer, or none, got {}",
                       where(kind), layers, caches.size());
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerLayerOptions& o)
    : attention(self_attention(o)),
      up(up_of(o)),
      down(down_of(o)),
      norm1(norm_of(o)),
      norm2(norm_of(o)),
      dropout_({.p = o.dropout}),
      norm_first_(o.norm_first) {}

void TransformerEncoderLayer::visit(Visitor& v) {
  v("attention", attention);
  v("norm1", norm1);
  v("up", up);
  v("down", down);
  v("norm2", norm2);
  v("dropout", dropout_);
}

template <class Attend>
Variable TransformerEncoderLayer::run(const Variable& x, const Attend& attend_to) {
  const auto feed_forward = [this](const Variable& h) { return dropout_(down(dropout_(up(h)))); };
  if (norm_first_) {
    const AddNormResult n = norm2(dropout_(attend_to(norm1(x))), x);
    return n.h + feed_forward(n.y);
  }
  const Variable h = norm1(dropout_(attend_to(x)), x).y;
  return norm2(feed_forward(h), h).y;
}

Variable TransformerEncoderLayer::forward(const Variable& x) {
  return run(x, [this](const Variable& h) { return attention(h); });
}

Variable TransformerEncoderLayer::operator()(const Variable& x, const AttentionMasks& masks) {
  const ModuleScope scope(*this);
  return run(x, [&](const Variable& h) { return attend(attention, h, masks); });
}

Variable TransformerEncoderLayer::operator()(const Variable& x, AttentionCache& cache, const AttentionMasks& masks) {
  const ModuleScope scope(*this);
  return run(x, [&](const Variable& h) { return attention(h, cache, masks); });
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerLayerOptions& o)
    : attention(self_attention(o)),
      cross(cross_attention(o)),
      up(up_of(o)),
      down(down_of(o)),
      norm1(norm_of(o)),
      norm2(norm_of(o)),
      norm3(norm_of(o)),
      dropout_({.p = o.dropout}),
      norm_first_(o.norm_first) {}

void TransformerDecoderLayer::visit(Visitor& v) {
  v("attention", attention);
  v("norm1", norm1);
  v("cross", cross);
  v("norm2", norm2);
  v("up", up);
  v("down", down);
  v("norm3", norm3);
  v("dropout", dropout_);
}

template <class Attend, class Cross>
Variable TransformerDecoderLayer::run(const Variable& x, const Attend& attend_to, const Cross& attend_to_memory) {
  const auto feed_forward = [this](const Variable& h) { return dropout_(down(dropout_(up(h)))); };
  if (norm_first_) {
    const AddNormResult first = norm2(dropout_(attend_to(norm1(x))), x);
    const AddNormResult second = norm3(dropout_(attend_to_memory(first.y)), first.h);
    return second.h + feed_forward(second.y);
  }
  const Variable first = norm1(dropout_(attend_to(x)), x).y;
  const Variable second = norm2(dropout_(attend_to_memory(first)), first).y;
  return norm3(feed_forward(second), second).y;
}

Variable TransformerDecoderLayer::operator()(const Variable& x, const Variable& memory,
                                             const TransformerDecoderMasks& masks) {
  const ModuleScope scope(*this);
  return run(
      x, [&](const Variable& h) { return attend(attention, h, masks.self); },
      [&](const Variable& h) { return cross(h, memory, memory, masks.memory); });
}

Variable TransformerDecoderLayer::operator()(const Variable& x, const Variable& memory, TransformerDecoderCache& cache,
                                             const TransformerDecoderMasks& masks) {
  const ModuleScope scope(*this);
  if (!cache.memory.key.defined()) cache.memory = cross.cache_of(memory, memory);
  return run(
      x, [&](const Variable& h) { return attention(h, cache.self, masks.self); },
      [&](const Variable& h) { return cross.attend_to(h, cache.memory, masks.memory); });
}

TransformerEncoder::TransformerEncoder(const TransformerOptions& o) {
  check_layers(o, "TransformerEncoder");
  for (std::int64_t i = 0; i < o.layers; ++i) layers.emplace_back(o.layer);
  if (o.norm) norm.emplace(norm_of(o.layer));
}

void TransformerEncoder::visit(Visitor& v) {
  layers.visit("layers", v);
  if (norm) v("norm", *norm);
}

Variable TransformerEncoder::forward(const Variable& x) {
  Variable y = x;
  for (TransformerEncoderLayer& layer : layers) y = layer(y);
  return norm ? (*norm)(y) : y;
}

Variable TransformerEncoder::operator()(const Variable& x, const AttentionMasks& masks) {
  const ModuleScope scope(*this);
  Variable y = x;
  for (TransformerEncoderLayer& layer : layers) y = layer(y, masks);
  return norm ? (*norm)(y) : y;
}

Variable TransformerEncoder::operator()(const Variable& x, std::vector<AttentionCache>& caches,
                                        const AttentionMasks& masks) {
  const ModuleScope scope(*this);
  fit(caches, layers.size(), kind());
  Variable y = x;
  for (std::size_t i = 0; i < layers.size(); ++i) y = layers[i](y, caches[i], masks);
  return norm ? (*norm)(y) : y;
}

TransformerDecoder::TransformerDecoder(const TransformerOptions& o) {
  check_layers(o, "TransformerDecoder");
  for (std::int64_t i = 0; i < o.layers; ++i) layers.emplace_back(o.layer);
  if (o.norm) norm.emplace(norm_of(o.layer));
}

void TransformerDecoder::visit(Visitor& v) {
  layers.visit("layers", v);
  if (norm) v("norm", *norm);
}

Variable TransformerDecoder::operator()(const Variable& x, const Variable& memory,
                                        const TransformerDecoderMasks& masks) {
  const ModuleScope scope(*this);
  Variable y = x;
  for (TransformerDecoderLayer& layer : layers) y = layer(y, memory, masks);
  return norm ? (*norm)(y) : y;
}

Variable TransformerDecoder::operator()(const Variable& x, const Variable& memory,
                                        std::vector<TransformerDecoderCache>& caches,
                                        const TransformerDecoderMasks& masks) {
  const ModuleScope scope(*this);
  fit(caches, layers.size(), kind());
  Variable y = x;
  for (std::size_t i = 0; i < layers.size(); ++i) y = layers[i](y, memory, caches[i], masks);
  return norm ? (*norm)(y) : y;
}

namespace {

/// Returns the options of the decoder layers of a Transformer.
TransformerLayerOptions decoder_layer(const EncoderDecoderOptions& o) {
  TransformerLayerOptions layer = o.layer;
  layer.attention.causal = o.causal;
  return layer;
}

}  // namespace

Transformer::Transformer(const EncoderDecoderOptions& o)
    : encoder({.layers = o.encoder_layers, .layer = o.layer, .norm = true}),
      decoder({.layers = o.decoder_layers, .layer = decoder_layer(o), .norm = true}) {}

void Transformer::visit(Visitor& v) {
  v("encoder", encoder);
  v("decoder", decoder);
}

Variable Transformer::operator()(const Variable& source, const Variable& target, const TransformerMasks& masks) {
  const ModuleScope scope(*this);
  return decoder(target, encoder(source, masks.source), masks.decoder);
}

}  // namespace binade::nn
