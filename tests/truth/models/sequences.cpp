#include <cmath>
#include <limits>

#include "tests/truth/models/models.h"

/// Attention: a GPT over tokens with a padding mask, and a decoder that attends to an encoder's states.
namespace binade::truth {

namespace {

constexpr std::int64_t kTokens = 8, kVocabulary = 12;
constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// The number of tokens of a sample that are not padding.
std::int64_t length_of(const Sample& s) { return kTokens - static_cast<std::int64_t>(3 * s.uniform(50, 0)); }
std::int64_t token_at(const Sample& s, std::int64_t k) {
  const auto first = s.label(kVocabulary);
  return (first + k * (1 + s.label(3)) + (s.uniform(51, k) < 0.1 ? 1 : 0)) % kVocabulary;
}

struct GptBlock : nn::Module {
  nn::LayerNorm norm1, norm2;
  nn::MultiHeadAttention attention;
  nn::Mlp mlp;
  Tap* tap;
  GptBlock(std::int64_t dim, Tap* t)
      : norm1({.dim = dim}),
        norm2({.dim = dim}),
        attention({.dim = dim, .heads = 2, .composed = true}),
        mlp({.dim = dim, .hidden = 2 * dim}),
        tap(t) {}
  void visit(nn::Visitor& v) override {
    v("norm1", norm1);
    v("attention", attention);
    v("norm2", norm2);
    v("mlp", mlp);
  }
  Variable operator()(const Variable& x, const Variable& mask) {
    const nn::ModuleScope scope(*this);
    const Variable h = x + attention(norm1(x), mask);
    const Variable y = h + mlp(norm2(h));
    return tap != nullptr ? (*tap)(y) : y;
  }
};

struct GptTask : Task {
  struct Net : nn::Module {
    nn::Embedding tokens, positions;
    nn::ModuleList<GptBlock> blocks;
    nn::LayerNorm norm;
    nn::Linear head;
    bool tied;
    Net(Tap* tap, bool is_tied)
        : tokens({.count = kVocabulary, .dim = 16}),
          positions({.count = kTokens, .dim = 16}),
          norm({.dim = 16}),
          head({.in = 16, .out = kVocabulary, .bias = false}),
          tied(is_tied) {
      blocks.emplace_back(std::int64_t{16}, tap);
      blocks.emplace_back(std::int64_t{16}, nullptr);
    }
    void visit(nn::Visitor& v) override {
      v("tokens", tokens);
      v("positions", positions);
      blocks.visit("blocks", v);
      v("norm", norm);
      if (!tied) v("head", head);
    }
    Variable operator()(const Variable& ids, const Variable& mask) {
      const nn::ModuleScope scope(*this);
      std::vector<std::int32_t> at(static_cast<std::size_t>(ids.dim(1)));
      for (std::size_t i = 0; i < at.size(); ++i) at[i] = static_cast<std::int32_t>(i);
      Variable h = tokens(ids) + positions(Tensor::from(at, {ids.dim(1)}));
      for (GptBlock& block : blocks) h = block(h, mask);
      return tied ? linear(norm(h), tokens.weight) : head(norm(h));
    }
  } model;
  explicit GptTask(const TaskOptions& o) : Task(o), model(&inner, o.tied) { inner_path = "blocks.0"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples();
    const auto token = [](const Sample& s, std::int64_t k) { return static_cast<double>(token_at(s, k)); };
    const auto next = [](const Sample& s, std::int64_t k) {
      return k + 1 < length_of(s) ? static_cast<double>(token_at(s, k + 1)) : -100.0;
    };
    const auto mask = [](const Sample& s, std::int64_t k) {
      const std::int64_t query = k / kTokens, key = k % kTokens;
      return key <= query && key < length_of(s) ? 0.0 : kHidden;
    };
    return b.add("x", {n, kTokens}, {}, token, DType::i32)
        .add("y", {n, kTokens}, {}, next, DType::i32)
        .add("mask", {n, 1, kTokens, kTokens}, {}, mask)
        .gate("gate", {n, 1, 1})
        .gate("gate_out", {n, 1, 1})
        .take();
  }
  Variable loss(const Batch& b) override { return nn::cross_entropy(outer(model(b["x"], b["mask"])), b["y"]); }
};

/// Queries (B, T, D) attend to memory (B, S, D) with the heads in front: (B heads, T, D / heads).
struct CrossAttention : nn::Module {
  static constexpr std::int64_t kHeads = 2;
  nn::Linear query, key, value, out;
  Tap* tap;
  CrossAttention(std::int64_t dim, Tap* t)
      : query({.in = dim, .out = dim}),
        key({.in = dim, .out = dim}),
        value({.in = dim, .out = dim}),
        out({.in = dim, .out = dim}),
        tap(t) {}
  void visit(nn::Visitor& v) override {
    v("query", query);
    v("key", key);
    v("value", value);
    v("out", out);
  }
  static Variable heads_first(const Variable& x) {
    const std::int64_t b = x.dim(0), t = x.dim(1), d = x.dim(2) / kHeads;
    return reshape(permute(reshape(x, {b, t, kHeads, d}), {0, 2, 1, 3}), {b * kHeads, t, d});
  }
  Variable operator()(const Variable& x, const Variable& memory, const Variable& mask) {
    const nn::ModuleScope scope(*this);
    const std::int64_t b = x.dim(0), t = x.dim(1), dim = x.dim(2);
    const Variable q = (*tap)(heads_first(query(x))), k = heads_first(key(memory)), v = heads_first(value(memory));
    const Variable scores = matmul(q, k, {.transpose_b = true}) * (1 / std::sqrt(static_cast<double>(dim / kHeads)));
    const Variable y = matmul(softmax(scores + mask), v);
    return out(reshape(permute(reshape(y, {b, kHeads, t, dim / kHeads}), {0, 2, 1, 3}), {b, t, dim}));
  }
};

struct EncoderDecoderTask : Task {
  static constexpr std::int64_t kSource = 6, kTarget = 4, kDim = 16;
  struct Net : nn::Module {
    nn::Linear source, target, readout;
    CrossAttention cross;
    nn::RmsNorm norm;
    explicit Net(Tap* tap)
        : source({.in = 5, .out = kDim, .activation = Activation::kGelu}),
          target({.in = 3, .out = kDim}),
          readout({.in = kDim, .out = 2}),
          cross(kDim, tap),
          norm({.dim = kDim}) {}
    void visit(nn::Visitor& v) override {
      v("source", source);
      v("target", target);
      v("cross", cross);
      v("norm", norm);
      v("readout", readout);
    }
    Variable operator()(const Variable& x, const Variable& queries, const Variable& mask) {
      const nn::ModuleScope scope(*this);
      const Variable t = target(queries);
      return readout(norm(t + cross(t, source(x), mask)));
    }
  } model;
  explicit EncoderDecoderTask(const TaskOptions& o) : Task(o), model(&inner) { inner_path = "cross"; }
  nn::Module& net() override { return model; }
  Batch batch(const io::BatchOrigin& origin) const override {
    BatchBuilder b(seed(), origin);
    const std::int64_t n = b.samples(), h = CrossAttention::kHeads;
    const auto mask = [](const Sample& s, std::int64_t k) {
      return k % kSource < kSource - static_cast<std::int64_t>(3 * s.uniform(50, 0)) ? 0.0 : kHidden;
    };
    return b.add("x", {n, kSource, 5}, {}, reading)
        .add("queries", {n, kTarget, 3}, {}, [](const Sample& s, std::int64_t k) { return 0.3 * s.normal(2, k); })
        .add("y", {n, kTarget, 2}, {}, wave)
        .add("mask", {n * h, 1, kSource}, {.axis = 0, .parts = h}, mask)
        .gate("gate", {n * h, 1, 1}, {.axis = 0, .parts = h})
        .gate("gate_out", {n, 1, 1})
        .take();
  }
  Variable loss(const Batch& b) override {
    return nn::huber(outer(model(b["x"], b["queries"], b["mask"])), b["y"], 0.5);
  }
};

}  // namespace

std::vector<ModelEntry> sequence_models() {
  return {
      {.name = "gpt",
       .make = make_task<GptTask>,
       .labels = "y",
       .classes = kVocabulary,
       .tokens = "x",
       .rows = kVocabulary,
       .mask = "mask"},
      {.name = "encoder-decoder", .make = make_task<EncoderDecoderTask>, .input = "x", .target = "y", .mask = "mask"}};
}

}  // namespace binade::truth
