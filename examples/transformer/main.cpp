// binade-gpt trains, evaluates and samples a GPT-2-class transformer.
#include <algorithm>

#include "binade/run/known_programs.h"
#include "examples/common/task_program.h"
#include "examples/transformer/evaluation.h"
#include "examples/transformer/gpt_settings.h"
#include "examples/transformer/sampling.h"
#include "examples/transformer/text_source.h"

namespace binade::examples {

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
struct TimedShape {
  const char* name;
  GptOptions model;
  std::int64_t batch, length;
};
constexpr GptOptions kGpt2{
    .layers = 12, .heads = 12, .dim = 768, .context = 1024, .vocabulary = 50257, .table = 50304, .tanh_gelu = true};
const TimedShape kTimedShapes[] = {
    {"gpt-tiny", {.layers = 4, .heads = 4, .dim = 128, .context = 64, .vocabulary = 256, .table = 256}, 16, 64},
    {"gpt", {.layers = 6, .heads = 6, .dim = 384, .context = 256, .vocabulary = 256, .table = 256}, 8, 256},
    {"gpt2", kGpt2, 4, 64},
    {"gpt2-1024", kGpt2, 4, 1024},
    {"gpt-dry", {.layers = 1, .heads = 2, .dim = 16, .context = 8, .vocabulary = 29, .table = 32}, 2, 8}};

Tensor random_tokens(const TimedShape& shape, std::uint32_t which) {
  const RandomStream numbers{1, RngPurpose::kData, 0, 0, which};
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.batch * shape.length));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(numbers.below(i, static_cast<std::uint64_t>(shape.model.vocabulary)));
  return Tensor::from(tokens, {shape.batch, shape.length});
}

/// Next-token prediction with a transformer (examples/common/task_program.h).
struct GptTask {
  using Setup = GptSettings;
  using EvalSetup = EvalSettings;
  using Model = Gpt;
  using Batch = io::TextBatch;
  using Data = TextSource;
  static constexpr TaskTexts texts{.program = "binade-gpt",
                                   .run = "gpt",
                                   .about = "Trains, evaluates and samples a GPT-2-class transformer.",
                                   .train = "Trains on text; commits checkpoints; evaluates on what was held out",
                                   .eval = "Reads the whole held-out text; prints one JSON object",
                                   .bench = "Times training steps on random tokens",
                                   .weights = kGptWeightFlags,
                                   .unit = "tokens",
                                   .score = "val_loss"};
  static_assert(texts.program == amp::kBinadeGpt.name);  // by which binade-doctor replay finds the program
  static constexpr InputCount inputs{.name = "vocabulary", .help = "number of tokens", .usual = 256, .most = 1e9};

  static void add_setup(Settings& table, GptSettings& s) { add_gpt_settings(table, s); }
  static void complete(GptSettings& s) { complete_gpt_settings(s); }
  static void add_eval_setup(Settings& table, EvalSettings& s) {
    s.data.batch = 16;
    add_eval_settings(table, s);
    table.add("batch", &s.data.batch, "windows at once", {.low = 1, .high = 1 << 20});
  }
  static TextSource read_data(const GptSettings& s) { return read_text_source(s.train, s.tokenizer); }
  static std::int64_t count_inputs(const TextSource& data) { return data.tokenizer->vocabulary_size(); }
  static GptOptions model_options(const GptSettings& s, std::int64_t tokens) { return gpt_options(s, tokens); }
  static GptOptions model_options(const StateDict& checkpoint) { return read_gpt_architecture(checkpoint); }
  static void start(Gpt&, const GptSettings&, const TextSource&) {}
  static Variable probe(const GptSettings&, Gpt& model) {
    const Tensor tokens = Tensor::zeros({1, std::min<std::int64_t>(model.options().context, 2)}, DType::i32,
                                        Runtime::current_device());
    return nn::cross_entropy(model(tokens), tokens);
  }
  static io::Loader<io::TextBatch> loader(const GptSettings& s, const TextSource& data) {
    return io::training_batches(data.split.train, {.context = s.context,
                                                   .batch = s.train.batch,
                                                   .seed = static_cast<std::uint64_t>(s.train.seed)});
  }
  static Variable loss(const GptSettings&, Gpt& model, const io::TextBatch& batch) {
    return nn::cross_entropy(model(batch.tokens), batch.targets);
  }
  static std::int64_t units_per_sample(const GptSettings& s) { return s.context; }
  static void add_constants(StateDict& constants, const GptSettings&, const TextSource& data) {
    constants.merge("progress/tokenizer", io::tokenizer_state(*data.tokenizer));
  }
  static amp::Evaluation evaluate(const GptSettings& s, Gpt& model, const TextSource& data) {
    const TextScore score = examples::evaluate(model, data.split.validation, s.train.batch);
    return {.numbers = {{"val_loss", score.loss}, {"val_accuracy", score.accuracy}}, .sample = sample_of(model, data)};
  }
  static void evaluate_checkpoint(io::JsonObject& result, Gpt& model, const StateDict& checkpoint,
                                  const EvalSettings& s) {
    const TextSource data = read_text_source(s.data, "",
                                             io::restore_tokenizer(checkpoint.section("progress/tokenizer")));
    const TextScore score = examples::evaluate(model, data.split.validation, s.data.batch);
    result.add("val_loss", static_cast<float>(score.loss))
        .add("val_accuracy", static_cast<float>(score.accuracy))
        .add("tokens", score.tokens);
  }
  static std::vector<std::string> workloads() {
    std::vector<std::string> names;
    for (const TimedShape& shape : kTimedShapes) names.emplace_back(shape.name);
    return names;
  }
  static BenchWorkload<GptTask> workload(const std::string& name, std::int64_t batch) {
    TimedShape shape = *std::ranges::find(kTimedShapes, name, &TimedShape::name);
    if (batch > 0) shape.batch = batch;
    return {.model = shape.model,
            .batch = {random_tokens(shape, 0), random_tokens(shape, 1), {}},
            .loss = [](Gpt& model, const io::TextBatch& b) { return loss({}, model, b); }};
  }
  static void tune(TrainSettings& s) { s.weight_decay = 0.01; }
};

}  // namespace binade::examples

int main(int argc, char** argv) {
  using namespace binade::examples;
  return run_task<GptTask>(argc, argv, {add_sample});
}
