// A language model of letters: an embedding, LSTM layers and a linear layer. It learns sentences of a small grammar, in
// which subject and verb agree, and writes some. A usual size is --hidden 512 --layers 3.
#include <random>

#include "examples/models/common.h"

using namespace binade;

const std::string kLetters = "abcdefghijklmnopqrstuvwxyz .";

/// Letters (N), i64, of sentences such as "two old cats hear a red fox."
Tensor text(int sentences, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_of = [&](const std::vector<std::string>& words) { return words[random() % words.size()]; };
  std::vector<int64_t> letters;
  for (int i = 0; i < sentences; ++i) {
    const auto phrase = [&](bool plural) {
      return one_of(plural ? std::vector<std::string>{"two ", "some "} : std::vector<std::string>{"a ", "one "}) +
             one_of({"red ", "old ", "big ", "small "}) + one_of({"cat", "dog", "bird", "lion"}) + (plural ? "s" : "");
    };
    const bool plural = random() % 2;
    const std::string verb = one_of({"see", "like", "hear", "find"}) + (plural ? " " : "s ");
    const std::string subject = phrase(plural), object = phrase(random() % 2);
    for (const char c : subject + " " + verb + object + ".") letters.push_back(static_cast<int64_t>(kLetters.find(c)));
  }
  return Tensor::from(letters, {static_cast<int64_t>(letters.size())});
}

struct CharLstm : nn::Module {  // letters (B, T) -> logits of the next letters (B, T, 28)
  nn::Embedding embedding;
  nn::Lstm lstm;
  nn::Linear out;

  CharLstm(int64_t hidden, int64_t layers)
      : embedding({.count = 28, .dim = 32}),
        lstm({.in = 32, .hidden = hidden, .layers = layers}),
        out({.in = hidden, .out = 28}) {}
  void visit(nn::Visitor& v) override {
    v("embedding", embedding);
    v("lstm", lstm);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(lstm(embedding(x))); }

  std::string sample(int length) {
    std::string written;
    RecurrentState state;
    Variable letter = Tensor::full({1, 1}, 27, DType::i64);
    for (int i = 0; i < length; ++i) {
      const RecurrentResult next = lstm(embedding(letter), state);
      state = next.state;
      letter = multinomial(softmax(out(next.y[0])).value(), 1);
      written += kLetters[static_cast<size_t>(letter.item())];
    }
    return written;
  }
};

struct Windows {
  Variable letters, next;  // (B, T) each
};

Windows windows(const Variable& text, int64_t batch, int64_t length) {
  const Variable at = randint(0, text.dim(0) - length, {batch, 1}) + arange(length + 1);
  const Variable both = take(text, at);
  return {slice(both, 1, 0, -1), slice(both, 1, 1, length + 1)};
}

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv,
                               {{"steps", 300}, {"batch", 16}, {"length", 96}, {"hidden", 64}, {"layers", 1}});
  Runtime runtime(args.runtime());
  CharLstm model(args["hidden"], args["layers"]);
  optim::Adam optimizer(model, {.lr = 1e-2});
  amp::Trainer trainer(runtime, model, optimizer, {.precision = args.policy(), .clip_norm = 1});

  const auto loss = [&](const Windows& b) { return nn::cross_entropy(model(b.letters), b.next); };
  const Variable training = text(2000, 1), held_out = text(500, 2);
  for (const int64_t step : args.steps())
    args.report(step, trainer.step(windows(training, args["batch"], args["length"]), loss).loss);

  trainer.evaluate([&] {
    models::metric("perplexity", std::exp(loss(windows(held_out, 100, args["length"])).item()));
    std::printf("%s\n", model.sample(200).c_str());
  });
}
