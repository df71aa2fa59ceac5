#include "tests/onnx/models.h"

#include <utility>

#include "binade.h"
#include "examples/transformer/gpt.h"
#include "examples/unet/unet.h"

namespace binade::onnx {
namespace {

Tensor images(std::int64_t n, std::int64_t size, std::int64_t channels) { return randn({n, size, size, channels}); }

/// A sample of a model with one input.
template <class M>
Sample of_one(std::string name, M model, const Tensor& x) {
  auto owned = std::make_unique<M>(std::move(model));
  M* const m = owned.get();
  return {.name = std::move(name),
          .model = std::move(owned),
          .forward = [m](std::span<const Variable> in) { return std::vector<Variable>{(*m)(in[0])}; },
          .inputs = {x}};
}

/// Gives batch norms statistics other than 0 and 1, as after training.
void train_once(nn::Module& model, const Tensor& x) {
  model.train();
  model(Variable(x));
  model.eval();
}

struct Functions : nn::StatelessModule {
  Variable forward(const Variable& x) override {
    Variable y = gelu(x) + silu(x) * sigmoid(x) - softplus(x) + elu(x, 0.7) + leaky_relu(x, 0.1) + mish(x);
    y = y + sin(x) * cos(x) + exp(-abs(x)) + log1p(square(x)) + hardswish(x) + gelu_tanh(x) + selu(x);
    y = where(x > 0.0, y, minimum(y, x)) + maximum(x, y) + clamp(x, -0.5, 0.5) + sqrt(abs(x) + 1.0);
    return softmax(y) + log_softmax(flip(y, {1})) + cumsum(x, 1) + pad(slice(x, 1, 1, 4), {1, x.dim(1) - 4}) +
           max(y, {1}, true) + mean(x, {1}, true);
  }
};

/// Weight norms, a group norm, pooling and resizing of both kinds.
struct Images : nn::Module {
  nn::Conv2d conv{{.in = 3, .out = 8, .padding = 1}};
  nn::GroupNorm norm{{.groups = 2, .channels = 8}};
  nn::Linear head{{.in = 8, .out = 4}};

  void visit(nn::Visitor& v) override { v("conv", conv), v("norm", norm), v("head", head); }
  Variable forward(const Variable& x) override {
    Variable y = relu(norm(conv(x)));
    y = avg_pool2d(y) + max_pool2d(y, {.kernel = 3, .stride = 2, .padding = 1});
    y = upsample(y, 2, UpsampleMode::kBilinear) * 0.5 + upsample(y, 2);
    return head(mean(pad(y, {0, 0, 1, 1}, PadMode::kReflect), {1, 2}));
  }
};

Sample of_gpt() {
  auto owned = std::make_unique<examples::Gpt>(
      examples::GptOptions{.layers = 2, .heads = 2, .dim = 16, .context = 8, .vocabulary = 20, .table = 24});
  auto* const m = owned.get();
  return {.name = "gpt",
          .model = std::move(owned),
          .forward = [m](std::span<const Variable> in) { return std::vector<Variable>{(*m)(in[0].value())}; },
          .inputs = {randint(0, 20, {2, 8})}};
}

template <class M>
Sample of_recurrent(std::string name, const nn::RecurrentOptions& options) {
  auto owned = std::make_unique<M>(options);
  M* const m = owned.get();
  return {.name = std::move(name),
          .model = std::move(owned),
          .forward =
              [m](std::span<const Variable> in) {
                const RecurrentResult r = (*m)(in[0], RecurrentState{});
                return std::vector<Variable>{r.y, r.state.h};
              },
          .inputs = {randn({2, 5, 3})}};
}

}  // namespace

std::vector<Sample> samples() {
  std::vector<Sample> all;
  all.push_back(of_one("mlp",
                       nn::Sequential(nn::Linear({.in = 6, .out = 16}), nn::Relu(), nn::Linear({.in = 16, .out = 3})),
                       randn({4, 6})));
  nn::Sequential convolutions(nn::Conv2d({.in = 3, .out = 8, .padding = 1}),
                              nn::BatchNorm2d({.channels = 8, .relu = true}), nn::MaxPool2d(),
                              nn::Conv2d({.in = 8, .out = 8, .stride = 2, .groups = 2}),
                              nn::BatchNorm2d({.channels = 8}));
  train_once(convolutions, images(4, 16, 3));
  all.push_back(of_one("convolutions", std::move(convolutions), images(2, 16, 3)));
  all.push_back(of_one("images", Images(), images(2, 8, 3)));
  all.push_back(of_one("attention", nn::MultiHeadAttention({.dim = 16, .heads = 4, .kv_heads = 2, .causal = true}),
                       randn({2, 6, 16})));
  all.push_back(of_one("functions", Functions(), randn({3, 7})));
  all.push_back(of_recurrent<nn::Lstm>("lstm", {.in = 3, .hidden = 4, .layers = 2, .bidirectional = true}));
  all.push_back(of_recurrent<nn::Gru>("gru", {.in = 3, .hidden = 4}));
  examples::UNet unet({.in = 1, .classes = 2, .base = 4, .depth = 2});
  train_once(unet, images(4, 16, 1));
  all.push_back(of_one("unet", std::move(unet), images(2, 16, 1)));
  all.push_back(of_gpt());
  return all;
}

}  // namespace binade::onnx
