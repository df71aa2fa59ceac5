// A transformer that translates (Vaswani et al., "Attention is all you need", 2017), with greedy and beam search. Its
// task: to reverse a text of 4 to 8 letters and to replace each letter by another one. The base model of the paper is
// --dim 512 --heads 8 --layers 6.
#include "examples/models/common.h"

using namespace binade;

constexpr int64_t kPad = 0, kStart = 1, kEnd = 2, kFirst = 3, kLetters = 10, kTokens = kFirst + kLetters, kLongest = 8;

struct Translator : nn::Module {
  nn::Embedding source, target, positions;
  nn::Transformer transformer;
  nn::Linear out;

  Translator(int64_t dim, int64_t heads, int64_t layers)
      : source({.count = kTokens, .dim = dim}),
        target({.count = kTokens, .dim = dim}),
        positions({.count = kLongest + 1, .dim = dim}),
        transformer({.encoder_layers = layers,
                     .decoder_layers = layers,
                     .layer = {.dim = dim, .heads = heads, .hidden = 4 * dim, .dropout = 0, .norm_first = true}}),
        out({.in = dim, .out = kTokens}) {}
  void visit(nn::Visitor& v) override {
    v("source", source);
    v("target", target);
    v("positions", positions);
    v("transformer", transformer);
    v("out", out);
  }
  Variable encode(const Variable& from) {
    return transformer.encoder(source(from) + positions(arange(from.dim(1))), {.key_mask = from != kPad});
  }
  /// Logits (N, T, tokens) of what follows each of the tokens `to` (N, T).
  Variable decode(const Variable& memory, const Variable& from, const Variable& to) {
    const Variable h = target(to) + positions(arange(to.dim(1)));
    return out(transformer.decoder(h, memory, {.memory = {.key_mask = from != kPad}}));
  }
  Variable operator()(const Variable& from, const Variable& to) {
    const nn::ModuleScope scope(*this);
    return decode(encode(from), from, to);
  }

  /// The best translations (N, T) of a search with `beams` texts at a time. One beam is the greedy search.
  Variable translate(const Variable& from, int64_t beams) {
    const int64_t n = from.dim(0);
    const Variable memory = repeat_interleave(encode(from), beams, 0), sources = repeat_interleave(from, beams, 0);
    const Variable first_row = arange(n) * beams;
    const Variable only_pad = (1 - one_hot(Tensor::full({1}, kPad, DType::i64), kTokens)) * -1e9;
    Variable texts = Tensor::full({n * beams, 1}, kStart, DType::i64);
    Variable scores = repeat(cast(arange(beams) > 0, DType::f32) * -1e9, {n, 1});  // the beams are equal at first
    while (texts.dim(1) <= kLongest + 1) {
      const Variable last = slice(texts, 1, -1, texts.dim(1));
      const Variable next = log_softmax(cast(select(decode(memory, sources, texts), 1, -1), DType::f32));
      const Variable allowed = where((last == kEnd) | (last == kPad), only_pad, next);
      const auto best = topk(reshape(unsqueeze(scores, -1) + reshape(allowed, {n, beams, -1}), {n, -1}), beams);
      const Variable rows = unsqueeze(first_row, 1) + floor_divide(best.indices, kTokens);
      texts = concat({index_select(texts, 0, flatten(rows, 0)), reshape(remainder(best.indices, kTokens), {-1, 1})}, 1);
      scores = best.values;
    }
    return slice(select(reshape(texts, {n, beams, -1}), 1, 0), 1, 1, kLongest + 2);
  }
};

struct Pairs {
  Variable from, right;  // (N, 8) and (N, 9), which end with kEnd and kPad
};

Pairs pairs(int64_t count) {
  const Variable length = randint(4, kLongest + 1, {count, 1}), at = arange(kLongest);
  const Variable letters = where(at < length, randint(kFirst, kTokens, {count, kLongest}), kPad);
  const Variable reversed = gather(letters, 1, clamp(length - 1 - at, 0, kLongest));
  const Variable recoded = kFirst + remainder((reversed - kFirst) * 3 + 1, kLetters);
  const Variable right = where(at < length, recoded, kEnd * (at == length));
  return {letters, concat({right, kEnd * (length == kLongest)}, 1)};
}

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv,
                               {{"steps", 300}, {"batch", 64}, {"dim", 32}, {"heads", 2}, {"layers", 1}, {"beams", 3}});
  Runtime runtime(args.runtime());
  Translator model(args["dim"], args["heads"], args["layers"]);
  optim::AdamW optimizer(model, {.weight_decay = 0});
  amp::Trainer trainer(
      runtime, model, optimizer,
      {.precision = args.policy(), .schedule = optim::Schedule::one_cycle(1e-2, args["steps"]), .clip_norm = 1});

  const Variable start = Tensor::full({args["batch"], 1}, kStart, DType::i64);
  const auto loss = [&](const Pairs& b) {  // the decoder reads the correct translation, shifted by one token
    return nn::cross_entropy(model(b.from, concat({start, slice(b.right, 1, 0, -1)}, 1)), b.right,
                             {.ignore_index = kPad});
  };
  for (const int64_t step : args.steps()) args.report(step, trainer.step(pairs(args["batch"]), loss).loss);

  const Pairs test = pairs(200);
  const auto right = [&](int64_t beams) {
    return mean(cast(all(model.translate(test.from, beams) == test.right, 1), DType::f32)).item();
  };
  models::metric("greedy", trainer.evaluate([&] { return right(1); }));
  models::metric("beam", trainer.evaluate([&] { return right(args["beams"]); }));
}
