#include <gtest/gtest.h>

#include <type_traits>

#include "binade/autograd/functions.h"
#include "binade/nn/activation.h"
#include "binade/nn/conv_transpose2d.h"
#include "binade/nn/embedding.h"
#include "binade/nn/image_layers.h"
#include "binade/nn/lora.h"
#include "binade/nn/spectral_norm.h"
#include "binade/nn/transformer.h"
#include "tests/golden/op_case.h"

/// Modules and functions for them compared with PyTorch's (golden_modules.py).
namespace binade::golden {
namespace {

/// Replaces parameters and buffers of a module by the inputs of their names, so that gradients reach the inputs.
template <class M>
M&& with(M&& module, const Inputs& in) {
  for (const auto& [name, parameter] : nn::named_parameters(module)) static_cast<Variable&>(*parameter) = in[name];
  for (const auto& [name, buffer] : nn::named_buffers(module)) *buffer = nn::Buffer(in[name].value());
  return std::forward<M>(module);
}

/// y = module(x), in evaluation mode.
template <class M>
Outputs of_x(M&& module, const Inputs& in) {
  with(module, in);
  module.eval();
  return {{"y", module(in["x"])}};
}

Function attention_with(const nn::MultiHeadAttentionOptions& options) {
  return [options](const Case&, const Inputs& in) { return of_x(nn::MultiHeadAttention(options), in); };
}

Function images(Variable (*f)(const Variable&, Extent2), Extent2 size) {
  return [=](const Case&, const Inputs& in) -> Outputs { return {{"y", f(in["x"], size)}}; };
}

template <class Layer>
Function layer(bool pre) {
  return [pre](const Case&, const Inputs& in) -> Outputs {
    Layer module({.dim = 8,
                  .heads = 2,
                  .hidden = 6,
                  .activation = pre ? Activation::kGelu : Activation::kRelu,
                  .norm_first = pre,
                  .attention = {.causal = std::is_same_v<Layer, nn::TransformerDecoderLayer>}});
    with(module, in);
    module.eval();
    if constexpr (std::is_same_v<Layer, nn::TransformerDecoderLayer>)
      return {{"y", module(in["x"], in["memory"])}};
    else
      return {{"y", module(in["x"])}};
  };
}

TEST(GoldenOps, ModulesMatchPyTorch) {
  using Options = nn::MultiHeadAttentionOptions;
  const Options two{.dim = 8, .heads = 2}, three{.dim = 6, .heads = 3};
  const auto with_options = [](Options o, auto change) {
    change(o);
    return attention_with(o);
  };
  const std::map<std::string, Function> functions{
      {"attention_cross",
       [&](const Case&, const Inputs& in) -> Outputs {
         Options o = two;
         o.key_dim = 5;
         o.value_dim = 6;
         nn::MultiHeadAttention attention(o);
         return {{"y", with(attention, in)(in["x"], in["k"], in["v"], {.key_mask = in["keep"]})}};
       }},
      {"attention_masks",
       [&](const Case&, const Inputs& in) -> Outputs {
         nn::MultiHeadAttention attention(two);
         return {{"y", with(attention, in)(in["x"], {.mask = in["mask"], .key_mask = in["keep"]})}};
       }},
      {"attention_rotary", with_options(two,
                                        [](Options& o) {
                                          o.causal = true;
                                          o.rotary.emplace();
                                        })},
      {"attention_rotary_neighbors",
       with_options(two, [](Options& o) { o.rotary = {.base = 100, .pairs = RotaryPairs::kNeighbors}; })},
      {"attention_rotary_part", with_options(two,
                                             [](Options& o) {
                                               o.causal = true;
                                               o.rotary = {.width = 2};
                                             })},
      {"attention_rotary_cross",
       [&](const Case&, const Inputs& in) -> Outputs {
         Options o = two;
         o.causal = true;
         o.rotary.emplace();
         nn::MultiHeadAttention attention(o);
         return {{"y", with(attention, in)(in["x"], in["k"], in["k"])}};
       }},
      {"attention_window", with_options(two,
                                        [](Options& o) {
                                          o.causal = true;
                                          o.window = 2;
                                        })},
      {"attention_window_both", with_options(two,
                                             [](Options& o) {
                                               o.window = 2;
                                               o.alibi = true;
                                             })},
      {"attention_softcap", with_options(two,
                                         [](Options& o) {
                                           o.causal = true;
                                           o.softcap = 1.5;
                                         })},
      {"attention_alibi", with_options(three,
                                       [](Options& o) {
                                         o.causal = true;
                                         o.alibi = true;
                                       })},
      {"attention_alibi_both", with_options(three, [](Options& o) { o.alibi = true; })},
      {"attention_widths",
       attention_with({.dim = 8, .heads = 4, .kv_heads = 2, .causal = true, .head_dim = 3, .value_head_dim = 2})},
      {"rotary_halves",
       [](const Case&, const Inputs& in) -> Outputs {
         return {{"y", rotary(in["x"], rotary_table(3, 6, 10000, 2, in["x"].dtype()))}};
       }},
      {"rotary_neighbors",
       [](const Case&, const Inputs& in) -> Outputs {
         return {{"y", rotary(in["x"], rotary_table(3, 4, 50, 0, in["x"].dtype()), RotaryPairs::kNeighbors)}};
       }},
      {"encoder_layer_post", layer<nn::TransformerEncoderLayer>(false)},
      {"encoder_layer_pre", layer<nn::TransformerEncoderLayer>(true)},
      {"decoder_layer_post", layer<nn::TransformerDecoderLayer>(false)},
      {"decoder_layer_pre", layer<nn::TransformerDecoderLayer>(true)},
      {"encoder",
       [](const Case&, const Inputs& in) {
         return of_x(
             nn::TransformerEncoder(
                 {.layers = 2,
                  .layer = {.dim = 8, .heads = 2, .hidden = 6, .activation = Activation::kGelu, .norm_first = true},
                  .norm = true}),
             in);
       }},
      {"weight_norm",
       [](const Case&, const Inputs& in) { return of_x(nn::WeightNorm(nn::Linear({.in = 5, .out = 4})), in); }},
      {"weight_norm_transposed",
       [](const Case&, const Inputs& in) {
         return of_x(nn::WeightNorm(nn::ConvTranspose2d({.in = 2, .out = 3, .bias = false}), {.axis = -1}), in);
       }},
      {"spectral_norm",
       [](const Case&, const Inputs& in) { return of_x(nn::SpectralNorm(nn::Linear({.in = 5, .out = 4})), in); }},
      {"lora",
       [](const Case&, const Inputs& in) {
         return of_x(nn::Lora(nn::Linear({.in = 5, .out = 4}), {.rank = 2, .alpha = 3}), in);
       }},
      {"adaptive_avg_uneven", images(adaptive_avg_pool2d, {3, 2})},
      {"adaptive_avg_even", images(adaptive_avg_pool2d, {5, 1})},
      {"adaptive_avg_larger", images(adaptive_avg_pool2d, {8, 4})},
      {"adaptive_avg_global", images(adaptive_avg_pool2d, 1)},
      {"adaptive_max_uneven", images(adaptive_max_pool2d, {3, 2})},
      {"adaptive_max_even", images(adaptive_max_pool2d, {5, 1})},
      {"adaptive_max_larger", images(adaptive_max_pool2d, {8, 4})},
      {"adaptive_max_global", images(adaptive_max_pool2d, 1)},
      {"pixel_shuffle", [](const Case&, const Inputs& in) { return of_x(nn::PixelShuffle(), in); }},
      {"pixel_unshuffle", [](const Case&, const Inputs& in) { return of_x(nn::PixelUnshuffle(), in); }},
      {"local_response_norm",
       [](const Case&, const Inputs& in) {
         return of_x(nn::LocalResponseNorm({.size = 5, .alpha = 0.5, .k = 2}), in);
       }},
      {"local_response_norm_even",
       [](const Case&, const Inputs& in) { return of_x(nn::LocalResponseNorm({.size = 4}), in); }},
      {"instance_norm",
       [](const Case&, const Inputs& in) { return of_x(nn::InstanceNorm2d({.channels = 2, .affine = true}), in); }},
      {"instance_norm_plain",
       [](const Case&, const Inputs& in) { return of_x(nn::InstanceNorm2d({.channels = 2}), in); }},
      {"glu", [](const Case&, const Inputs& in) { return of_x(nn::Glu({.axis = 1}), in); }},
      {"softsign", [](const Case&, const Inputs& in) { return of_x(nn::Softsign(), in); }},
      {"cosine_similarity",
       [](const Case&, const Inputs& in) -> Outputs {
         return {{"y", cosine_similarity(in["a"], in["b"])}};
       }},
      {"embedding_bag_weighted",
       [](const Case&, const Inputs& in) -> Outputs {
         nn::EmbeddingBag bag({.count = 6, .dim = 4, .mode = BagMode::kSum});
         return {{"y", with(bag, in)(in["i"], in["o"], in["w"])}};
       }},
  };
  // In f64: the fused attention stores the scale of the logits in f32 (see ops_attention_test.cpp), and the masks of
  // windows and ALiBi are f32. In f32: in the gradients of queries and keys, terms up to 64 cancel. After two layers,
  // PyTorch's f32 gradients have errors of 1e-6 too. Kernel levels with short vectors reach 6e-6.
  check_family("modules", functions, {.rtol = 1e-7, .share = 3e-8}, {.rtol = 1e-5, .share = 1e-6, .absolute = 0x1p-16});
}

}  // namespace
}  // namespace binade::golden
