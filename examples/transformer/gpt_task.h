#pragma once

#include "examples/common/task_program.h"
#include "examples/transformer/gpt_settings.h"
#include "examples/transformer/text_source.h"

namespace binade::examples {

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
  static constexpr InputCount inputs{.name = "vocabulary", .help = "number of tokens", .usual = 256, .most = 1e9};

  static void add_setup(Settings& table, GptSettings& s) { add_gpt_settings(table, s); }
  static void complete(GptSettings& s) { complete_gpt_settings(s); }
  static void add_eval_setup(Settings& table, EvalSettings& s);
  static TextSource read_data(const GptSettings& s) { return read_text_source(s.train, s.tokenizer); }
  static std::int64_t count_inputs(const TextSource& data) { return data.tokenizer->vocabulary_size(); }
  static GptOptions model_options(const GptSettings& s, std::int64_t tokens) { return gpt_options(s, tokens); }
  static GptOptions model_options(const StateDict& checkpoint) { return read_gpt_architecture(checkpoint); }
  static void start(Gpt&, const GptSettings&, const TextSource&) {}
  static Variable probe(const GptSettings& s, Gpt& model);
  static io::Loader<io::TextBatch> loader(const GptSettings& s, const TextSource& data);
  static Variable loss(const GptSettings& s, Gpt& model, const io::TextBatch& batch);
  static std::int64_t units_per_sample(const GptSettings& s) { return s.context; }
  static void add_constants(StateDict& constants, const GptSettings& s, const TextSource& data);
  static amp::Evaluation evaluate(const GptSettings& s, Gpt& model, const TextSource& data);
  static void evaluate_checkpoint(io::JsonObject& result, Gpt& model, const StateDict& checkpoint,
                                  const EvalSettings& s);
  static std::vector<std::string> workloads();
  static BenchWorkload<GptTask> workload(const std::string& name, std::int64_t batch);
  static void tune(TrainSettings& s) { s.weight_decay = 0.01; }
};

/// Declares the command `sample`, which continues a prompt.
Command add_sample(CLI::App& program);

}  // namespace binade::examples
