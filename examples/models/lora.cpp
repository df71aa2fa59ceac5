// Low-rank adapters (Hu et al., 2021) of a pretrained GPT-2. The program first trains a small GPT-2 to continue rising
// sequences and writes it in Hugging Face's layout. It then loads that file into a model with adapters, freezes all
// other weights, and teaches the adapters to continue falling sequences. Prints the accuracy of next tokens, and 1 for
// `frozen` if the frozen weights have the bits of the file.
#include <unistd.h>

#include <filesystem>
#include <ranges>

#include "examples/models/common.h"

using namespace binade;

constexpr int64_t kTokens = 24, kLength = 12;

template <class Layer>  // nn::Linear, or nn::Lora
struct Block : nn::Module {
  int64_t heads;
  nn::LayerNorm ln_1, ln_2;
  Layer c_attn, c_proj, c_fc, down;

  Block(int64_t dim, int64_t n)
      : heads(n),
        ln_1({.dim = dim}),
        ln_2({.dim = dim}),
        c_attn(nn::Linear({.in = dim, .out = 3 * dim})),
        c_proj(nn::Linear({.in = dim, .out = dim})),
        c_fc(nn::Linear({.in = dim, .out = 4 * dim})),
        down(nn::Linear({.in = 4 * dim, .out = dim})) {}
  void visit(nn::Visitor& v) override {
    v("ln_1", ln_1), v("attn.c_attn", c_attn), v("attn.c_proj", c_proj);
    v("ln_2", ln_2), v("mlp.c_fc", c_fc), v("mlp.c_proj", down);
  }
  Variable forward(const Variable& x) override {
    const Variable h = x + c_proj(attention(c_attn(ln_1(x)), {}, {}, {.causal = true, .heads = heads}));
    return h + down(gelu_tanh(c_fc(ln_2(h))));
  }
};

template <class Layer>
struct Gpt : nn::Module {  // tokens (B, T) -> logits (B, T, kTokens)
  nn::Embedding wte, wpe;
  nn::ModuleList<Block<Layer>> h;
  nn::LayerNorm ln_f;

  explicit Gpt(const models::Arguments& args)
      : wte({.count = kTokens, .dim = args["dim"]}),
        wpe({.count = kLength, .dim = args["dim"]}),
        ln_f({.dim = args["dim"]}) {
    for (int64_t i = 0; i < args["layers"]; ++i) h.emplace_back(args["dim"], args["heads"]);
    for (const auto& [name, p] : nn::named_parameters(*this))
      if (name.ends_with("weight") && p->value().rank() == 2) nn::init::normal(*p, 0.02);
  }
  void visit(nn::Visitor& v) override { v("wte", wte), v("wpe", wpe), h.visit("h", v), v("ln_f", ln_f); }
  Variable forward(const Variable& tokens) override {
    Variable x = wte(tokens) + wpe(arange(tokens.dim(1)));
    for (auto& block : h) x = block(x);
    return linear(ln_f(x), wte.weight);
  }
};

/// Sequences (count, kLength) that rise or fall by 1 to 4 in each step, modulo kTokens.
Tensor draw(int64_t count, int64_t direction) {
  const Variable first = randint(0, kTokens, {count, 1}), step = randint(1, 5, {count, 1});
  return remainder(first + direction * step * arange(kLength), kTokens).value();
}

/// Hugging Face's matrices, except embeddings, are (in, out), ours (out, in).
Tensor exchanged(const std::string& name, const Tensor& t) {
  return name.find(".c_") != std::string::npos && t.rank() == 2 ? transpose(t).value() : t;
}

int main(int argc, char** argv) {
  const models::Arguments args(
      argc, argv, {{"steps", 150}, {"pretrain", 300}, {"batch", 32}, {"dim", 48}, {"heads", 4}, {"layers", 2}});
  Runtime runtime(args.runtime());
  const auto train = [&](nn::Module& model, int64_t direction, auto&& steps) {
    optim::AdamW optimizer(model, {.lr = 3e-3});
    amp::Trainer trainer(runtime, model, optimizer, {.precision = args.policy(), .clip_norm = 1});
    const auto loss = [&](const Tensor& x) { return cross_entropy(slice(model(x), 1, 1, -1), slice(x, 1, 2)); };
    for (const int64_t step : steps) args.report(step, trainer.step(draw(args["batch"], direction), loss).loss);
    const Tensor x = draw(512, direction);
    const Variable found = trainer.evaluate([&] { return argmax(model(x), -1); });
    return mean(cast(slice(found, 1, 1, -1) == slice(x, 1, 2), DType::f32)).item();
  };

  const auto path = std::filesystem::temp_directory_path() / ("gpt2-" + std::to_string(getpid()) + ".safetensors");
  {
    Gpt<nn::Linear> model(args);
    models::metric("pretrained", train(model, 1, std::views::iota(int64_t{0}, args["pretrain"])));
    io::Safetensors file;
    for (const auto& [name, p] : nn::named_parameters(model)) file.tensors[name] = exchanged(name, p->value());
    io::write_safetensors(path, file);
  }

  Gpt<nn::Lora> model(args);
  StateDict pretrained;
  for (const auto& [name, tensor] : io::read_safetensors(path).tensors) pretrained.put(name, exchanged(name, tensor));
  std::filesystem::remove(path);
  nn::load_state_dict(model, pretrained, {.strict = false});
  for (const auto& [name, p] : nn::named_parameters(model)) p->requires_grad(!pretrained.contains(name));
  models::metric("accuracy", train(model, -1, args.steps()));
  bool frozen = true;
  for (const auto& [name, p] : nn::named_parameters(model))
    if (pretrained.contains(name)) frozen &= equal(p->value(), pretrained.tensor(name));
  models::metric("frozen", frozen);
}
