#include "examples/transformer/gpt_settings.h"

#include <nlohmann/json.hpp>

#include "binade/io/text/tokenizer.h"
#include "examples/common/architecture.h"

namespace binade::examples {
namespace {

struct Preset {
  const char* name;
  std::int64_t layers, heads, dim, context;
  bool tanh_gelu;
};
constexpr Preset kPresets[] = {
    {"tiny", 4, 4, 128, 64, false}, {"char", 6, 6, 384, 256, false}, {"gpt2", 12, 12, 768, 1024, true}};

const Preset& preset_of(const std::string& name) {
  for (const Preset& p : kPresets)
    if (p.name == name) return p;
  throw ArgumentError("--preset: wanted tiny, char or gpt2, got '" + name + "'");
}

constexpr std::int64_t kMostLayers = 1000, kMostHeads = 1000, kMostDim = 1 << 16, kMostContext = 1 << 20;
constexpr std::int64_t kMostTokens = 1 << 24;  // largest number of tokens, as in io/text/bpe_vocabulary.cpp

// Token tables of at least kLargeTable rows are padded to a multiple of kTableMultiple rows, so that the product of the
// head has whole tiles.
constexpr std::int64_t kTableMultiple = 128;
constexpr std::int64_t kLargeTable = 4096;

std::int64_t padded_table(std::int64_t tokens) {
  return tokens < kLargeTable ? tokens : (tokens + kTableMultiple - 1) / kTableMultiple * kTableMultiple;
}

}  // namespace

void add_gpt_settings(Settings& t, GptSettings& s) {
  using enum OnResume;
  s.train.batch = 12;
  s.train.steps = 2000;
  s.train.beta2 = 0.99;
  s.train.weight_decay = 0.1;
  s.train.clip = 1;
  s.train.warmup = 100;
  s.train.min_lr = 1e-4;
  add_train_settings(t, s.train);
  t.add("preset", &s.preset, "shape: tiny 4x128x4, char 6x384x6, gpt2 12x768x12",
        {.on_resume = kIncompatible, .choices = {"tiny", "char", "gpt2"}});
  t.add("layers", &s.layers, "blocks (default: the preset's)",
        {.on_resume = kIncompatible, .low = 1, .high = kMostLayers});
  t.add("heads", &s.heads, "attention heads (default: the preset's)",
        {.on_resume = kIncompatible, .low = 1, .high = kMostHeads});
  t.add("dim", &s.dim, "width (default: the preset's)", {.on_resume = kIncompatible, .low = 1, .high = kMostDim});
  t.add("context", &s.context, "tokens per window (default: the preset's)",
        {.on_resume = kIncompatible, .low = 1, .high = kMostContext});
  t.add("dropout", &s.dropout, "share dropped after embeddings, attention and MLP", {.low = 0, .high = 0.99});
  t.add("bias", &s.bias, "biases in linear layers; norms keep theirs", {.on_resume = kIncompatible});
  t.add("tokenizer", &s.tokenizer, "tokenizer; FILE: GPT-2's tokenizer.json",
        {.on_resume = kIncompatible, .value = "byte|char|bpe:FILE"});
  t.add("attention", &s.attention, "one op, or matmul, softmax, matmul", {.choices = {"fused", "composed"}});
  t.add("recompute", &s.recompute, "recompute activations of blocks instead of keeping them",
        {.on_resume = kMayChange});
}

void complete_gpt_settings(GptSettings& s) {
  const Preset& p = preset_of(s.preset);
  if (s.layers == 0) s.layers = p.layers;
  if (s.heads == 0) s.heads = p.heads;
  if (s.dim == 0) s.dim = p.dim;
  if (s.context == 0) s.context = p.context;
  check<ArgumentError>(s.dim % s.heads == 0, "--heads: wanted a divisor of --dim {}, got {}", s.dim, s.heads);
  complete_train_settings(s.train);
}

GptOptions gpt_options(const GptSettings& s, std::int64_t tokens) {
  return {.layers = s.layers,
          .heads = s.heads,
          .dim = s.dim,
          .context = s.context,
          .vocabulary = tokens,
          .table = padded_table(tokens),
          .dropout = s.dropout,
          .bias = s.bias,
          .composed = s.attention == "composed",
          .tanh_gelu = preset_of(s.preset).tanh_gelu,
          .recompute = s.recompute};
}

std::string architecture_json(const GptOptions& o) {
  return nlohmann::ordered_json{{"model", "gpt"},   {"layers", o.layers},   {"heads", o.heads},
                                {"dim", o.dim},     {"context", o.context}, {"vocabulary", o.vocabulary},
                                {"table", o.table}, {"bias", o.bias},       {"tanh_gelu", o.tanh_gelu}}
      .dump();
}

GptOptions read_gpt_architecture(const StateDict& checkpoint) {
  const Architecture a(checkpoint, "gpt");
  GptOptions o;
  o.layers = a.integer("layers", 1, kMostLayers);
  o.heads = a.integer("heads", 1, kMostHeads);
  o.dim = a.integer("dim", 1, kMostDim);
  o.context = a.integer("context", 1, kMostContext);
  o.vocabulary = a.integer("vocabulary", 1, kMostTokens);
  o.table = a.integer("table", 1, padded_table(kMostTokens));
  o.bias = a.flag("bias");
  o.tanh_gelu = a.flag("tanh_gelu");
  a.expect_fit(o.dim % o.heads == 0, "'heads' that divide 'dim'");
  a.expect_fit(o.table == padded_table(o.vocabulary), "a 'table' that fits 'vocabulary'");
  a.expect("tokens.weight", {o.table, o.dim});
  a.expect("positions.weight", {o.context, o.dim});
  for (std::int64_t i = 0; i < o.layers; ++i) {
    const std::string block = fmt::format("blocks.{}.", i);
    for (const char* name : {"query", "key", "value", "out"})
      a.expect(block + "attention." + name + ".weight", {o.dim, o.dim});
    a.expect(block + "mlp.up.weight", {4 * o.dim, o.dim});
    a.expect(block + "mlp.down.weight", {o.dim, 4 * o.dim});
    if (!o.bias) a.expect_none(block + "mlp.down.bias");
  }
  a.expect_none(fmt::format("blocks.{}.mlp.up.weight", o.layers));
  if (checkpoint.contains("progress/tokenizer/kind")) {  // missing in imported checkpoints
    const auto tokenizer = io::restore_tokenizer(checkpoint.section("progress/tokenizer"));
    a.expect_fit(tokenizer->vocabulary_size() == o.vocabulary,
                 fmt::format("a 'vocabulary' of {}, which its tokenizer has,", tokenizer->vocabulary_size()));
  }
  return o;
}

}  // namespace binade::examples
