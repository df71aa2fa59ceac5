#include <algorithm>

#include "binade/core/ops/conv2d.h"
#include "binade/core/ops/conv_transpose2d.h"
#include "binade/nn/activation.h"
#include "binade/nn/attention.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/bilinear.h"
#include "binade/nn/containers.h"
#include "binade/nn/conv1d.h"
#include "binade/nn/conv2d.h"
#include "binade/nn/conv3d.h"
#include "binade/nn/conv_transpose2d.h"
#include "binade/nn/dropout.h"
#include "binade/nn/embedding.h"
#include "binade/nn/flatten.h"
#include "binade/nn/group_norm.h"
#include "binade/nn/image_layers.h"
#include "binade/nn/layer_norm.h"
#include "binade/nn/linear.h"
#include "binade/nn/lora.h"
#include "binade/nn/mlp.h"
#include "binade/nn/padding.h"
#include "binade/nn/pooling.h"
#include "binade/nn/recurrent.h"
#include "binade/nn/rms_norm.h"
#include "binade/nn/sequential.h"
#include "binade/nn/shared.h"
#include "binade/nn/spectral_norm.h"
#include "binade/nn/transformer.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/work.h"

namespace binade::fuzz {
namespace {

using A = Arguments&;
using Out = std::vector<Variable>;

/// Runs the module on x, in training or evaluation mode.
Out on(nn::Module&& module, A a, const Variable& x) {
  module.train(a.flag());
  return {module(x)};
}

Variable rows(A a) { return a.tensor({a.b, a.t, a.d}); }
Activation activation(A a) { return static_cast<Activation>(a.draws().below(4)); }
PoolOptions pool(A a) {
  return {.kernel = a.extent(2), .stride = a.extent(0), .padding = a.extent(0), .count_include_pad = a.flag()};
}

/// Paddings of one number, or of one for each side.
std::vector<std::int64_t> sides(A a, int count) {
  std::vector<std::int64_t> list;
  for (int i = a.flag() ? count : 1; i > 0; --i) list.push_back(a.number(1));
  return list;
}

/// Channels per group; 1 for invalid group counts.
std::int64_t channels_per_group(std::int64_t channels, std::int64_t groups) {
  return groups > 0 ? channels / groups : 1;
}

/// Options of an attention, each of which is set in some calls.
nn::MultiHeadAttentionOptions attention_options(A a) {
  nn::MultiHeadAttentionOptions o{.dim = a.number(a.i * a.d),
                                  .heads = a.number(a.i),
                                  .kv_heads = a.number(0),
                                  .causal = a.flag(),
                                  .dropout = a.real(0.1),
                                  .bias = a.flag(),
                                  .composed = a.flag()};
  const auto sometimes = [&] { return a.draws().one_in(5); };
  if (sometimes()) o.head_dim = a.number(a.d);
  if (sometimes()) o.value_head_dim = a.number(a.d);
  if (sometimes()) o.rotary = {.base = a.real(10000), .width = a.number(0)};
  if (sometimes()) o.window = a.number(2);
  if (sometimes()) o.softcap = a.real(10);
  o.alibi = sometimes();
  return o;
}

nn::AttentionMasks masks(A a, std::int64_t keys) {
  nn::AttentionMasks both;
  if (a.flag()) both.mask = a.flag() ? a.tensor({1, 1, a.t, keys}) : a.mask({a.t, keys});
  if (a.flag()) both.key_mask = a.mask({a.b, keys});
  return both;
}

Out attend(A a) {
  nn::MultiHeadAttentionOptions o = attention_options(a);
  const bool cross = a.draws().one_in(3);
  if (cross) {
    o.key_dim = a.number(a.d);
    o.value_dim = a.number(a.c);
  }
  nn::MultiHeadAttention attention(o);
  const Variable x = a.tensor({a.b, a.t, a.i * a.d});
  if (cross) {
    const Variable keys = a.tensor({a.b, a.k, a.d}), values = a.tensor({a.b, a.k, a.c});
    if (a.flag()) return {attention(x, keys, values, masks(a, a.k))};
    return {attention.attend_to(x, attention.cache_of(keys, values), masks(a, a.k))};
  }
  if (a.draws().one_in(3)) return {attention(x, masks(a, a.t))};
  if (a.draws().one_in(3)) {
    nn::AttentionCache cache;
    attention(x, cache);
    return {attention(a.tensor({a.b, 1, a.i * a.d}), cache)};
  }
  return on(std::move(attention), a, x);
}

nn::TransformerLayerOptions layer_options(A a) {
  return {.dim = a.number(a.i * a.d),
          .heads = a.number(a.i),
          .hidden = a.number(a.k),
          .dropout = a.real(0.1),
          .activation = activation(a),
          .norm_first = a.flag(),
          .eps = a.real(1e-5),
          .bias = a.flag(),
          .attention = {.causal = a.flag()}};
}

Variable sequence(A a) { return a.tensor({a.b, a.t, a.i * a.d}); }
Variable memory(A a) { return a.tensor({a.b, a.k, a.i * a.d}); }

Out pack(const RecurrentResult& r) {
  Out out{r.y, r.state.h};
  if (r.state.c.defined()) out.push_back(r.state.c);
  return out;
}

nn::RecurrentOptions recurrent_options(A a) {
  const std::int64_t layers = a.draws().one_in(3) ? a.number(2) : 1;
  return {.in = a.number(a.d),
          .hidden = a.number(a.k),
          .layers = std::min<std::int64_t>(layers, 3),
          .bias = a.flag(),
          .dropout = layers > 1 ? a.real(0.2) : 0,
          .bidirectional = a.flag()};
}

/// Runs recurrent layers from zeros or from states that fit them, with or without lengths.
Out on_sequences(nn::RecurrentLayers&& layers, A a, bool cells) {
  layers.train(a.flag());
  const Variable x = rows(a);
  if (a.flag()) return {layers(x)};
  const nn::RecurrentOptions& o = layers.options();
  const std::int64_t parts = o.layers * (o.bidirectional ? 2 : 1);
  RecurrentState start;
  if (a.flag()) start.h = a.tensor({parts, a.b, a.k});
  if (cells && a.flag()) start.c = a.tensor({parts, a.b, a.k});
  return pack(layers(x, start, a.flag() ? a.indices({a.b}, a.t + 1) : Variable()));
}

nn::RecurrentCellOptions cell_options(A a) { return {.in = a.number(a.d), .hidden = a.number(a.k), .bias = a.flag()}; }

Out on_position(nn::RecurrentCellModule&& cell, A a, bool cells) {
  const Variable x = a.tensor({a.b, a.d});
  if (a.flag()) return {cell(x)};
  const RecurrentState next = cell(x, {a.tensor({a.b, a.k}), cells ? a.tensor({a.b, a.k}) : Variable()});
  return {next.h};
}

}  // namespace

const std::vector<Call>& module_calls() {
  static const std::vector<Call> all{
      {"Relu", [](A a) { return on(nn::Relu(), a, a.any()); }},
      {"Gelu", [](A a) { return on(nn::Gelu({.tanh = a.flag()}), a, a.any()); }},
      {"Silu", [](A a) { return on(nn::Silu(), a, a.any()); }},
      {"Sigmoid", [](A a) { return on(nn::Sigmoid(), a, a.any()); }},
      {"Tanh", [](A a) { return on(nn::Tanh(), a, a.any()); }},
      {"Relu6", [](A a) { return on(nn::Relu6(), a, a.any()); }},
      {"Mish", [](A a) { return on(nn::Mish(), a, a.any()); }},
      {"Selu", [](A a) { return on(nn::Selu(), a, a.any()); }},
      {"Hardswish", [](A a) { return on(nn::Hardswish(), a, a.any()); }},
      {"Hardsigmoid", [](A a) { return on(nn::Hardsigmoid(), a, a.any()); }},
      {"LogSigmoid", [](A a) { return on(nn::LogSigmoid(), a, a.any()); }},
      {"Tanhshrink", [](A a) { return on(nn::Tanhshrink(), a, a.any()); }},
      {"Softsign", [](A a) { return on(nn::Softsign(), a, a.any()); }},
      {"LeakyRelu", [](A a) { return on(nn::LeakyRelu({.slope = a.real(0.01)}), a, a.any()); }},
      {"Elu", [](A a) { return on(nn::Elu({.alpha = a.real(1)}), a, a.any()); }},
      {"Celu", [](A a) { return on(nn::Celu({.alpha = a.real(1)}), a, a.any()); }},
      {"Softplus", [](A a) { return on(nn::Softplus({.beta = a.real(1), .threshold = a.real(20)}), a, a.any()); }},
      {"Hardtanh", [](A a) { return on(nn::Hardtanh({.low = a.real(-1), .high = a.real(1)}), a, a.any()); }},
      {"Hardshrink", [](A a) { return on(nn::Hardshrink({.lambda = a.real(0.5)}), a, a.any()); }},
      {"Softshrink", [](A a) { return on(nn::Softshrink({.lambda = a.real(0.5)}), a, a.any()); }},
      {"Threshold", [](A a) { return on(nn::Threshold({.threshold = a.real(0), .value = a.real(0)}), a, a.any()); }},
      {"Softmax", [](A a) { return on(nn::Softmax({.axis = a.axis(3)}), a, rows(a)); }},
      {"Softmin", [](A a) { return on(nn::Softmin({.axis = a.axis(3)}), a, rows(a)); }},
      {"LogSoftmax", [](A a) { return on(nn::LogSoftmax({.axis = a.axis(3)}), a, rows(a)); }},
      {"Glu", [](A a) { return on(nn::Glu({.axis = a.axis(3)}), a, rows(a)); }},
      {"Prelu", [](A a) { return on(nn::Prelu({.channels = a.number(a.d), .init = a.real(0.25)}), a, rows(a)); }},
      {"Identity", [](A a) { return on(nn::Identity(), a, a.any()); }},
      {"Unflatten",
       [](A a) {
         return on(nn::Unflatten({.axis = a.axis(4), .sizes = {a.number(2), a.number(-1)}}), a, a.images());
       }},
      {"CosineSimilarity",
       [](A a) -> Out {
         nn::CosineSimilarity similarity({.axis = a.axis(3), .eps = a.real(1e-8)});
         const Variable x = rows(a), y = rows(a);
         return {similarity(x, y)};
       }},
      {"ZeroPad1d",
       [](A a) {
         return on(nn::ZeroPad1d({.padding = sides(a, 2)}), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"ZeroPad2d", [](A a) { return on(nn::ZeroPad2d({.padding = sides(a, 4)}), a, a.images()); }},
      {"ZeroPad3d",
       [](A a) {
         return on(nn::ZeroPad3d({.padding = sides(a, 6)}), a, a.tensor({a.b, a.t, a.h, a.w, a.c}));
       }},
      {"ReflectionPad1d",
       [](A a) {
         return on(nn::ReflectionPad1d({.padding = sides(a, 2)}), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"ReflectionPad2d", [](A a) { return on(nn::ReflectionPad2d({.padding = sides(a, 4)}), a, a.images()); }},
      {"ReflectionPad3d",
       [](A a) {
         return on(nn::ReflectionPad3d({.padding = sides(a, 6)}), a, a.tensor({a.b, a.t, a.h, a.w, a.c}));
       }},
      {"ReplicationPad1d",
       [](A a) {
         return on(nn::ReplicationPad1d({.padding = sides(a, 2)}), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"ReplicationPad2d", [](A a) { return on(nn::ReplicationPad2d({.padding = sides(a, 4)}), a, a.images()); }},
      {"ReplicationPad3d",
       [](A a) {
         return on(nn::ReplicationPad3d({.padding = sides(a, 6)}), a, a.tensor({a.b, a.t, a.h, a.w, a.c}));
       }},
      {"CircularPad1d",
       [](A a) {
         return on(nn::CircularPad1d({.padding = sides(a, 2)}), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"CircularPad2d", [](A a) { return on(nn::CircularPad2d({.padding = sides(a, 4)}), a, a.images()); }},
      {"CircularPad3d",
       [](A a) {
         return on(nn::CircularPad3d({.padding = sides(a, 6)}), a, a.tensor({a.b, a.t, a.h, a.w, a.c}));
       }},
      {"ConstantPad1d",
       [](A a) {
         return on(nn::ConstantPad1d({.padding = sides(a, 2), .value = a.real(1)}), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"ConstantPad2d",
       [](A a) { return on(nn::ConstantPad2d({.padding = sides(a, 4), .value = a.real(1)}), a, a.images()); }},
      {"ConstantPad3d",
       [](A a) {
         return on(nn::ConstantPad3d({.padding = sides(a, 6), .value = a.real(1)}), a,
                   a.tensor({a.b, a.t, a.h, a.w, a.c}));
       }},
      {"PairwiseDistance",
       [](A a) -> Out {
         nn::PairwiseDistance distance({.p = a.real(2), .eps = a.real(1e-6), .keepdim = a.flag()});
         const Variable x = rows(a), y = rows(a);
         return {distance(x, y)};
       }},
      {"Bilinear",
       [](A a) -> Out {
         nn::Bilinear layer({.in1 = a.number(a.d), .in2 = a.number(a.k), .out = a.number(a.c), .bias = a.flag()});
         const Variable x = a.tensor({a.b, a.d}), y = a.tensor({a.b, a.k});
         return {layer(x, y)};
       }},
      {"ChannelShuffle",
       [](A a) {
         return on(nn::ChannelShuffle({.groups = a.number(2)}), a, a.tensor({a.n, a.h, a.w, 2 * a.c}));
       }},
      {"Transformer",
       [](A a) -> Out {
         nn::Transformer model(
             {.encoder_layers = 1, .decoder_layers = 1, .layer = layer_options(a), .causal = a.flag()});
         const Variable x = sequence(a), y = sequence(a);
         return {model(x, y)};
       }},
      {"Dropout1d", [](A a) { return on(nn::Dropout1d({.p = a.real(0.5)}), a, rows(a)); }},
      {"Dropout3d", [](A a) { return on(nn::Dropout3d({.p = a.real(0.5)}), a, a.images()); }},
      {"FeatureAlphaDropout", [](A a) { return on(nn::FeatureAlphaDropout({.p = a.real(0.5)}), a, a.images()); }},
      {"Dropout2d", [](A a) { return on(nn::Dropout2d({.p = a.real(0.5)}), a, a.images()); }},
      {"AlphaDropout", [](A a) { return on(nn::AlphaDropout({.p = a.real(0.5)}), a, a.any()); }},
      {"AdaptiveAvgPool2d", [](A a) { return on(nn::AdaptiveAvgPool2d({.size = a.extent(2)}), a, a.images()); }},
      {"AdaptiveMaxPool2d", [](A a) { return on(nn::AdaptiveMaxPool2d({.size = a.extent(2)}), a, a.images()); }},
      {"PixelShuffle",
       [](A a) {
         return on(nn::PixelShuffle({.factor = a.number(2)}), a, a.tensor({a.n, a.h, a.w, 4 * a.c}));
       }},
      {"PixelUnshuffle",
       [](A a) {
         return on(nn::PixelUnshuffle({.factor = a.number(2)}), a, a.tensor({a.n, 2 * a.h, 2 * a.w, a.c}));
       }},
      {"LocalResponseNorm",
       [](A a) {
         return on(nn::LocalResponseNorm({.alpha = a.real(1e-4), .beta = a.real(0.75), .k = a.real(1)}), a, a.images());
       }},
      {"InstanceNorm2d",
       [](A a) {
         return on(nn::InstanceNorm2d({.channels = a.number(a.c), .eps = a.real(1e-5), .affine = a.flag()}), a,
                   a.images());
       }},
      {"EmbeddingBag",
       [](A a) -> Out {
         nn::EmbeddingBag bag(
             {.count = a.number(a.k), .dim = a.number(a.d), .mode = static_cast<BagMode>(a.draws().below(3))});
         if (a.flag()) return {bag(a.indices({a.b, a.t}, a.k))};
         const Variable indices = a.indices({a.t}, a.k), offsets = a.indices({a.b}, a.t + 1);
         return {bag(indices, offsets, a.flag() ? Variable() : a.tensor({a.t}))};
       }},
      {"ModuleDict",
       [](A a) -> Out {
         nn::ModuleDict parts;
         parts.add(a.flag() ? "part" : "an.other", nn::Linear({.in = a.d, .out = a.number(a.k)}));
         return {parts["part"](rows(a))};
       }},
      {"ParameterList",
       [](A a) -> Out {
         nn::ParameterList parts;
         return {rows(a) * parts.append(Tensor::full({a.d}, a.real(1)))};
       }},
      {"ParameterDict",
       [](A a) -> Out {
         nn::ParameterDict parts;
         parts.add(a.flag() ? "part" : "", Tensor::full({a.d}, a.real(1)));
         return {rows(a) * parts["part"]};
       }},
      {"Shared",
       [](A a) {
         const nn::Shared layer(nn::Linear({.in = a.d, .out = a.number(a.d)}));
         return on(nn::Sequential(layer, nn::Tanh(), layer), a, rows(a));
       }},
      {"WeightNorm",
       [](A a) {
         return on(nn::WeightNorm(nn::Linear({.in = a.number(a.d), .out = a.number(a.k)}), {.axis = a.axis(2)}), a,
                   rows(a));
       }},
      {"SpectralNorm",
       [](A a) {
         const std::int64_t iterations = a.number(1);
         return on(nn::SpectralNorm(nn::Linear({.in = a.number(a.d), .out = a.number(a.k)}),
                                    {.iterations = static_cast<int>(iterations > 9   ? 9
                                                                    : iterations < 0 ? -1
                                                                                     : iterations),
                                     .eps = a.real(1e-12),
                                     .axis = a.axis(2)}),
                   a, rows(a));
       }},
      {"Lora",
       [](A a) {
         nn::Lora layer(nn::Linear({.in = a.number(a.d), .out = a.number(a.k)}),
                        {.rank = a.number(2), .alpha = a.real(8), .dropout = a.real(0.1)});
         if (a.draws().one_in(3)) layer.merge();
         return on(std::move(layer), a, rows(a));
       }},
      {"TransformerEncoderLayer",
       [](A a) -> Out {
         nn::TransformerEncoderLayer layer(layer_options(a));
         const Variable x = sequence(a);
         return {layer(x, masks(a, a.t))};
       }},
      {"TransformerDecoderLayer",
       [](A a) -> Out {
         nn::TransformerDecoderLayer layer(layer_options(a));
         const Variable x = sequence(a), m = memory(a);
         nn::TransformerDecoderCache cache;
         if (a.flag()) return {layer(x, m, cache), layer(x, m, cache)};
         return {layer(x, m, {.self = masks(a, a.t), .memory = masks(a, a.k)})};
       }},
      {"TransformerEncoder",
       [](A a) {
         return on(nn::TransformerEncoder({.layers = 1, .layer = layer_options(a), .norm = a.flag()}), a, sequence(a));
       }},
      {"TransformerDecoder",
       [](A a) -> Out {
         nn::TransformerDecoder decoder({.layers = 2, .layer = layer_options(a), .norm = a.flag()});
         const Variable x = sequence(a), m = memory(a);
         std::vector<nn::TransformerDecoderCache> caches(a.draws().below(4));
         return {a.flag() ? decoder(x, m) : decoder(x, m, caches)};
       }},
      {"MultiHeadAttention", attend},
      {"BatchNorm2d",
       [](A a) {
         return on(nn::BatchNorm2d(
                       {.channels = a.number(a.c), .momentum = a.real(0.1), .eps = a.real(1e-5), .relu = a.flag()}),
                   a, a.images());
       }},
      {"Conv2d",
       [](A a) {
         const Variable x = a.images();
         nn::Conv2dOptions o{.in = a.number(a.c),
                             .out = a.number(a.k),
                             .kernel = a.extent(a.r),
                             .stride = a.extent(1),
                             .padding = a.extent(1),
                             .dilation = a.extent(1),
                             .groups = a.number(1),
                             .bias = a.flag()};
         if (takes_long<ops::Conv2d>(
                 x, {o.out, o.kernel.y, o.kernel.x, channels_per_group(o.in, o.groups)},
                 {.stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups}))
           o = {.in = o.in, .out = o.out, .kernel = {a.r, a.s}, .groups = o.groups, .bias = o.bias};
         return on(nn::Conv2d(o), a, x);
       }},
      {"Conv1d",
       [](A a) {
         const std::int64_t in = a.number(a.d), out = a.number(a.k);
         nn::Conv1dOptions o{.in = in, .out = out, .kernel = a.extent(a.r).x, .groups = a.number(1), .bias = a.flag()};
         if (a.flag()) o.stride = a.extent(1).x;
         return on(nn::Conv1d(o), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"ConvTranspose1d",
       [](A a) {
         const std::int64_t in = a.number(a.d), out = a.number(a.k);
         nn::ConvTranspose1dOptions o{
             .in = in, .out = out, .kernel = a.extent(a.r).x, .groups = a.number(1), .bias = a.flag()};
         if (a.flag()) o.padding = a.extent(0).x;
         return on(nn::ConvTranspose1d(o), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"MaxPool1d",
       [](A a) {
         return on(nn::MaxPool1d({.kernel = a.extent(2).x}), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"AvgPool1d",
       [](A a) {
         return on(nn::AvgPool1d({.kernel = a.extent(2).x}), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"AdaptiveAvgPool1d",
       [](A a) {
         return on(nn::AdaptiveAvgPool1d({.size = a.extent(2).x}), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"AdaptiveMaxPool1d",
       [](A a) {
         return on(nn::AdaptiveMaxPool1d({.size = a.extent(2).x}), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"BatchNorm1d",
       [](A a) {
         return on(nn::BatchNorm1d({.channels = a.number(a.d), .momentum = a.real(0.1), .eps = a.real(1e-5)}), a,
                   a.tensor({a.b, a.t, a.d}));
       }},
      {"InstanceNorm1d",
       [](A a) {
         return on(nn::InstanceNorm1d({.channels = a.number(a.d), .eps = a.real(1e-5), .affine = a.flag()}), a,
                   a.tensor({a.b, a.t, a.d}));
       }},
      {"Conv3d",
       [](A a) {
         const std::int64_t in = a.number(a.c), out = a.number(a.k);
         nn::Conv3dOptions o{.in = in, .out = out, .kernel = a.extent3(a.r), .groups = a.number(1), .bias = a.flag()};
         if (a.flag()) o.stride = a.extent3(1);
         return on(nn::Conv3d(o), a, a.tensor({a.n, a.t, a.h, a.w, a.c}));
       }},
      {"ConvTranspose3d",
       [](A a) {
         const std::int64_t in = a.number(a.c), out = a.number(a.k);
         nn::ConvTranspose3dOptions o{
             .in = in, .out = out, .kernel = a.extent3(a.r), .groups = a.number(1), .bias = a.flag()};
         if (a.flag()) o.padding = a.extent3(0);
         return on(nn::ConvTranspose3d(o), a, a.tensor({a.n, a.t, a.h, a.w, a.c}));
       }},
      {"MaxPool3d",
       [](A a) {
         return on(nn::MaxPool3d({.kernel = a.extent3(2)}), a, a.tensor({a.n, a.t, a.h, a.w, a.c}));
       }},
      {"AvgPool3d",
       [](A a) {
         return on(nn::AvgPool3d({.kernel = a.extent3(2)}), a, a.tensor({a.n, a.t, a.h, a.w, a.c}));
       }},
      {"AdaptiveAvgPool3d",
       [](A a) {
         return on(nn::AdaptiveAvgPool3d({.size = a.extent3(2)}), a, a.tensor({a.n, a.t, a.h, a.w, a.c}));
       }},
      {"AdaptiveMaxPool3d",
       [](A a) {
         return on(nn::AdaptiveMaxPool3d({.size = a.extent3(2)}), a, a.tensor({a.n, a.t, a.h, a.w, a.c}));
       }},
      {"BatchNorm3d",
       [](A a) {
         return on(nn::BatchNorm3d({.channels = a.number(a.c), .momentum = a.real(0.1), .eps = a.real(1e-5)}), a,
                   a.tensor({a.n, a.t, a.h, a.w, a.c}));
       }},
      {"InstanceNorm3d",
       [](A a) {
         return on(nn::InstanceNorm3d({.channels = a.number(a.c), .eps = a.real(1e-5), .affine = a.flag()}), a,
                   a.tensor({a.n, a.t, a.h, a.w, a.c}));
       }},
      {"ConvTranspose2d",
       [](A a) {
         const Variable x = a.images();
         nn::ConvTranspose2dOptions o{.in = a.number(a.c),
                                      .out = a.number(a.k),
                                      .kernel = a.extent(a.r),
                                      .stride = a.extent(2),
                                      .padding = a.extent(0),
                                      .output_padding = a.extent(0),
                                      .dilation = a.extent(1),
                                      .groups = a.number(1),
                                      .bias = a.flag()};
         if (takes_long<ops::ConvTranspose2d>(x, {o.in, o.kernel.y, o.kernel.x, channels_per_group(o.out, o.groups)},
                                              {.stride = o.stride,
                                               .padding = o.padding,
                                               .output_padding = o.output_padding,
                                               .dilation = o.dilation,
                                               .groups = o.groups}))
           o = {.in = o.in, .out = o.out, .kernel = {a.r, a.s}, .groups = o.groups, .bias = o.bias};
         return on(nn::ConvTranspose2d(o), a, x);
       }},
      {"Dropout", [](A a) { return on(nn::Dropout({.p = a.real(0.5)}), a, a.any()); }},
      {"Embedding",
       [](A a) {
         return on(nn::Embedding({.count = a.number(a.k), .dim = a.number(a.d)}), a, a.indices({a.b, a.t}, a.k));
       }},
      {"Flatten", [](A a) { return on(nn::Flatten({.first = a.axis(4), .last = a.axis(4)}), a, a.images()); }},
      {"GroupNorm",
       [](A a) {
         return on(nn::GroupNorm(
                       {.groups = a.number(1), .channels = a.number(a.c), .eps = a.real(1e-5), .relu = a.flag()}),
                   a, a.images());
       }},
      {"LayerNorm",
       [](A a) {
         return on(nn::LayerNorm({.dim = a.number(a.d), .eps = a.real(1e-5), .bias = a.flag()}), a, rows(a));
       }},
      {"RmsNorm", [](A a) { return on(nn::RmsNorm({.dim = a.number(a.d), .eps = a.real(1e-6)}), a, rows(a)); }},
      {"Linear",
       [](A a) {
         return on(nn::Linear(
                       {.in = a.number(a.d), .out = a.number(a.k), .bias = a.flag(), .activation = activation(a)}),
                   a, rows(a));
       }},
      {"Mlp",
       [](A a) {
         return on(nn::Mlp({.dim = a.number(a.d),
                            .hidden = a.number(0),
                            .activation = activation(a),
                            .bias = a.flag(),
                            .dropout = a.real(0)}),
                   a, rows(a));
       }},
      {"Rnn",
       [](A a) {
         const nn::RecurrentOptions o = recurrent_options(a);
         return on_sequences(nn::Rnn({.in = o.in,
                                      .hidden = o.hidden,
                                      .layers = o.layers,
                                      .relu = a.flag(),
                                      .bias = o.bias,
                                      .dropout = o.dropout,
                                      .bidirectional = o.bidirectional}),
                             a, false);
       }},
      {"Lstm", [](A a) { return on_sequences(nn::Lstm(recurrent_options(a)), a, true); }},
      {"Gru", [](A a) { return on_sequences(nn::Gru(recurrent_options(a)), a, false); }},
      {"RnnCell",
       [](A a) {
         const nn::RecurrentCellOptions o = cell_options(a);
         return on_position(nn::RnnCell({.in = o.in, .hidden = o.hidden, .relu = a.flag(), .bias = o.bias}), a, false);
       }},
      {"LstmCell", [](A a) { return on_position(nn::LstmCell(cell_options(a)), a, true); }},
      {"GruCell", [](A a) { return on_position(nn::GruCell(cell_options(a)), a, false); }},
      {"MaxPool2d", [](A a) { return on(nn::MaxPool2d(pool(a)), a, a.images()); }},
      {"AvgPool2d", [](A a) { return on(nn::AvgPool2d(pool(a)), a, a.images()); }},
      {"Upsample",
       [](A a) {
         const auto mode = static_cast<UpsampleMode>(a.draws().below(5));
         return on(nn::Upsample({.factor = a.number(2), .mode = mode, .align_corners = a.flag()}), a, a.images());
       }},
      {"LpPool1d",
       [](A a) {
         return on(nn::LpPool1d({.p = a.real(2), .pool = {.kernel = a.number(2)}}), a, a.tensor({a.b, a.t, a.d}));
       }},
      {"LpPool2d", [](A a) { return on(nn::LpPool2d({.p = a.real(2), .pool = pool(a)}), a, a.images()); }},
      {"LpPool3d",
       [](A a) {
         return on(nn::LpPool3d({.p = a.real(2), .pool = {.kernel = a.extent3(2)}}), a,
                   a.tensor({a.n, a.t, a.h, a.w, a.c}));
       }},
      {"Rrelu", [](A a) { return on(nn::Rrelu({.lower = a.real(0.125), .upper = a.real(0.5)}), a, a.any()); }},
      {"Sequential",
       [](A a) {
         return on(nn::Sequential(nn::Linear({.in = a.d, .out = a.k}), nn::Relu(),
                                  nn::LayerNorm({.dim = a.number(a.k)})),
                   a, rows(a));
       }},
  };
  return all;
}

}  // namespace binade::fuzz
