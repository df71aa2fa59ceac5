#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>

#include "binade/autograd/inference_mode.h"
#include "binade/core/runtime.h"
#include "binade/io/exchange/safetensors.h"
#include "binade/nn/attention.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/conv1d.h"
#include "binade/nn/conv2d.h"
#include "binade/nn/conv3d.h"
#include "binade/nn/conv_transpose2d.h"
#include "binade/nn/embedding.h"
#include "binade/nn/flatten.h"
#include "binade/nn/layer_norm.h"
#include "binade/nn/recurrent.h"
#include "binade/nn/sequential.h"
#include "binade/nn/spectral_norm.h"
#include "binade/nn/transformer.h"
#include "binade/nn/weight_norm.h"
#include "binade/run/model_files/pytorch.h"
#include "tests/golden/op_case.h"
#include "tests/io/scratch_folder.h"

/// State dicts of PyTorch's modules, loaded into modules of the same structure and written back.
namespace binade::golden {
namespace {

/// An embedding and a layer with the same weight, as language models have.
struct Tied : nn::Module {
  nn::Embedding tokens{{.count = 7, .dim = 5}};
  nn::Linear head{{.in = 5, .out = 7, .bias = false}};
  Tied() { head.weight = tokens.weight; }
  void visit(nn::Visitor& v) override {
    v("tokens", tokens);
    v("head", head);
  }
  Variable forward(const Variable& i) override { return head(tokens(i)); }
};

std::unique_ptr<nn::Module> module_of(const std::string& name) {
  const nn::TransformerLayerOptions layer{.dim = 8, .heads = 2, .hidden = 6};
  const nn::Conv2dOptions filter{.in = 2, .out = 3, .kernel = {2, 3}};
  if (name == "conv1d")
    return std::make_unique<nn::Sequential>(nn::Conv1d({.in = 3, .out = 4, .kernel = 3, .padding = 1}),
                                            nn::BatchNorm1d({.channels = 4}),
                                            nn::ConvTranspose1d({.in = 4, .out = 2, .kernel = 2, .stride = 2}));
  if (name == "conv2d")
    return std::make_unique<nn::Sequential>(nn::Conv2d({.in = 4, .out = 6, .kernel = {3, 2}, .stride = 2, .groups = 2}),
                                            nn::BatchNorm2d({.channels = 6, .relu = true}), nn::Identity(),
                                            nn::ConvTranspose2d(
                                                {.in = 6, .out = 4, .kernel = {2, 3}, .stride = 2, .groups = 2}));
  if (name == "conv3d")
    return std::make_unique<nn::Sequential>(nn::Conv3d({.in = 2, .out = 3, .kernel = {1, 2, 3}}),
                                            nn::BatchNorm3d({.channels = 3}),
                                            nn::ConvTranspose3d({.in = 3, .out = 2, .kernel = 2}));
  if (name == "flatten")
    return std::make_unique<nn::Sequential>(nn::Conv2d({.in = 2, .out = 3, .kernel = 2}), nn::Flatten({.first = 1}),
                                            nn::Linear({.in = 18, .out = 4}));
  if (name == "linear")
    return std::make_unique<nn::Sequential>(nn::Embedding({.count = 7, .dim = 5}), nn::Linear({.in = 5, .out = 4}),
                                            nn::LayerNorm({.dim = 4}));
  if (name == "tied") return std::make_unique<Tied>();
  if (name == "lstm")
    return std::make_unique<nn::Lstm>(nn::RecurrentOptions{.in = 3, .hidden = 4, .layers = 2, .bidirectional = true});
  if (name == "gru") return std::make_unique<nn::Gru>(nn::RecurrentOptions{.in = 3, .hidden = 4});
  if (name == "attention")
    return std::make_unique<nn::MultiHeadAttention>(nn::MultiHeadAttentionOptions{.dim = 8, .heads = 2});
  if (name == "attention_cross")
    return std::make_unique<nn::MultiHeadAttention>(
        nn::MultiHeadAttentionOptions{.dim = 8, .heads = 2, .key_dim = 5, .value_dim = 6});
  if (name == "encoder_layer") return std::make_unique<nn::TransformerEncoderLayer>(layer);
  if (name == "decoder_layer") return std::make_unique<nn::TransformerDecoderLayer>(layer);
  if (name.starts_with("weight_norm")) return std::make_unique<nn::WeightNorm<nn::Conv2d>>(nn::Conv2d(filter));
  if (name == "spectral_norm_transposed")
    return std::make_unique<nn::SpectralNorm<nn::ConvTranspose2d>>(
        nn::ConvTranspose2d({.in = 2, .out = 3, .kernel = {2, 3}}), nn::SpectralNormOptions{.axis = -1});
  if (name.starts_with("spectral_norm")) return std::make_unique<nn::SpectralNorm<nn::Conv2d>>(nn::Conv2d(filter));
  return nullptr;
}

Variable output(nn::Module& module, const Case& golden) {
  const auto in = [&](const char* role) { return Variable(golden.array(role).tensor()); };
  if (golden.name == "attention_cross")
    return dynamic_cast<nn::MultiHeadAttention&>(module)(in("in.x0"), in("in.x1"), in("in.x2"));
  if (golden.name == "decoder_layer")
    return dynamic_cast<nn::TransformerDecoderLayer&>(module)(in("in.x0"), in("in.x1"));
  return module(in("in.x0"));
}

io::TensorMap state_of(const Case& golden) {
  constexpr std::string_view kRole = "state.";
  io::TensorMap state;
  for (const auto& [role, array] : golden.arrays)
    if (role.starts_with(kRole)) state.emplace(role.substr(kRole.size()), array.tensor());
  return state;
}

PytorchOptions options_for(const std::string& name) {
  PytorchOptions options;
  // PyTorch flattens an image of 3 channels channel by channel, Binade pixel by pixel.
  if (name == "flatten") options.names.add("2.weight -> 2.weight : flattened=3");
  return options;
}

TEST(StateDicts, OfPyTorchGiveItsOutputsAndAreWrittenBack) {
  Runtime runtime({.seed = 1});
  const io::ScratchFolder folder;
  const std::vector<Case> cases = read(golden::folder() + "/state_dicts.txt");
  EXPECT_EQ(cases.size(), 17u);
  for (const Case& golden : cases) {
    SCOPED_TRACE(golden.name);
    const std::unique_ptr<nn::Module> module = module_of(golden.name);
    ASSERT_NE(module, nullptr);
    const io::TensorMap state = state_of(golden);
    const std::string path = folder.path(golden.name + ".safetensors");
    io::write_safetensors(path, {.tensors = state});
    const PytorchOptions options = options_for(golden.name);
    load_pytorch(*module, path, options);
    module->eval();
    {
      const InferenceMode inference;
      // f32 sums of at most a few dozen terms. A wrong layout would give errors as large as the values.
      EXPECT_EQ(difference(output(*module, golden).value(), golden.array("out.y"), {.rtol = 1e-5, .share = 4e-6}), "");
    }
    save_pytorch(*module, path, options);
    const io::TensorMap back = io::read_safetensors(path).tensors;
    EXPECT_EQ(back.size(), state.size());
    if (golden.name.ends_with("_parametrized")) continue;  // written back with the names without parametrizations
    for (const auto& [name, tensor] : state) {
      ASSERT_TRUE(back.contains(name)) << name;
      const Tensor& got = back.at(name);
      EXPECT_TRUE(got.dtype() == tensor.dtype() && got.shape() == tensor.shape() &&
                  std::memcmp(got.raw(), tensor.raw(), tensor.bytes()) == 0)
          << name;
    }
  }
}

}  // namespace
}  // namespace binade::golden
