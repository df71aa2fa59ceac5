#include "examples/transformer/gpt_task.h"

#include <algorithm>

#include "binade/run/known_programs.h"
#include "examples/transformer/evaluation.h"
#include "examples/transformer/sampling.h"

namespace binade::examples {

static_assert(GptTask::texts.program == amp::kBinadeGpt.name);  // by which binade-doctor replay finds the program

namespace {

/// Returns the model's continuation of the first held-out tokens.
std::string sample_of(Gpt& model, const TextSource& source) {
  constexpr std::int64_t kPrompt = 16, kTokens = 64;
  std::vector<std::int32_t> prompt;
  for (std::int64_t i = 0; i < std::min(kPrompt, source.split.validation.size()); ++i)
    prompt.push_back(source.split.validation[i]);
  return source.tokenizer->decode(sample(model, prompt, {.tokens = kTokens}));
}

/// The workloads of docs/performance.md and docs/performance-gpu.md: model, batch and sequence length. gpt-dry is
/// small and only tests benchmark scripts.
struct Shape {
  const char* name;
  GptOptions model;
  std::int64_t batch, length;
};
constexpr GptOptions kGpt2{
    .layers = 12, .heads = 12, .dim = 768, .context = 1024, .vocabulary = 50257, .table = 50304, .tanh_gelu = true};
const Shape kShapes[] = {
    {"gpt-tiny", {.layers = 4, .heads = 4, .dim = 128, .context = 64, .vocabulary = 256, .table = 256}, 16, 64},
    {"gpt", {.layers = 6, .heads = 6, .dim = 384, .context = 256, .vocabulary = 256, .table = 256}, 8, 256},
    {"gpt2", kGpt2, 4, 64},
    {"gpt2-1024", kGpt2, 4, 1024},
    {"gpt-dry", {.layers = 1, .heads = 2, .dim = 16, .context = 8, .vocabulary = 29, .table = 32}, 2, 8}};

Tensor random_tokens(const Shape& shape, std::uint32_t which) {
  const RandomStream numbers{1, RngPurpose::kData, 0, 0, which};
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.batch * shape.length));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(numbers.below(i, static_cast<std::uint64_t>(shape.model.vocabulary)));
  return Tensor::from(tokens, {shape.batch, shape.length});
}

Variable next_token_loss(Gpt& model, const io::TextBatch& batch) {
  return nn::cross_entropy(model(batch.tokens), batch.targets);
}

}  // namespace

void GptTask::add_eval_setup(Settings& table, EvalSettings& s) {
  s.data.batch = 16;
  add_eval_settings(table, s);
  table.add("batch", &s.data.batch, "windows at once", {.low = 1, .high = 1 << 20});
}

Variable GptTask::probe(const GptSettings&, Gpt& model) {
  const Tensor tokens = Tensor::zeros({1, std::min<std::int64_t>(model.options().context, 2)}, DType::i32,
                                      Runtime::current_device());
  return nn::cross_entropy(model(tokens), tokens);
}

io::Loader<io::TextBatch> GptTask::loader(const GptSettings& s, const TextSource& data) {
  return io::training_batches(data.split.train, {.context = s.context,
                                                 .batch = s.train.batch,
                                                 .seed = static_cast<std::uint64_t>(s.train.seed)});
}

Variable GptTask::loss(const GptSettings&, Gpt& model, const io::TextBatch& batch) {
  return next_token_loss(model, batch);
}

void GptTask::add_constants(StateDict& constants, const GptSettings&, const TextSource& data) {
  constants.merge("progress/tokenizer", io::tokenizer_state(*data.tokenizer));
}

amp::Evaluation GptTask::evaluate(const GptSettings& s, Gpt& model, const TextSource& data) {
  const TextScore score = examples::evaluate(model, data.split.validation, s.train.batch);
  return {.numbers = {{"val_loss", score.loss}, {"val_accuracy", score.accuracy}}, .sample = sample_of(model, data)};
}

void GptTask::evaluate_checkpoint(io::JsonObject& result, Gpt& model, const StateDict& checkpoint,
                                  const EvalSettings& s) {
  const TextSource data = read_text_source(s.data, "", io::restore_tokenizer(checkpoint.section("progress/tokenizer")));
  const TextScore score = examples::evaluate(model, data.split.validation, s.data.batch);
  result.add("val_loss", static_cast<float>(score.loss))
      .add("val_accuracy", static_cast<float>(score.accuracy))
      .add("tokens", score.tokens);
}

std::vector<std::string> GptTask::workloads() {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

BenchWorkload<GptTask> GptTask::workload(const std::string& name, std::int64_t batch) {
  Shape shape = *std::ranges::find(kShapes, name, &Shape::name);
  if (batch > 0) shape.batch = batch;
  return {
      .model = shape.model, .batch = {random_tokens(shape, 0), random_tokens(shape, 1), {}}, .loss = next_token_loss};
}

}  // namespace binade::examples
