#include <CLI/CLI.hpp>

#include "binade/run/known_programs.h"
#include "examples/common/model_file.h"
#include "examples/common/train_program.h"
#include "examples/transformer/evaluation.h"
#include "examples/transformer/gpt_commands.h"
#include "examples/transformer/gpt_settings.h"
#include "examples/transformer/probe.h"
#include "examples/transformer/sampling.h"
#include "examples/transformer/text_source.h"

namespace binade::examples {
namespace {

/// How the model goes on from the first tokens of what was held out.
std::string sample_of(Gpt& model, const TextSource& source) {
  constexpr std::int64_t kPrompt = 16, kTokens = 64;
  std::vector<std::int32_t> prompt;
  for (std::int64_t i = 0; i < std::min(kPrompt, source.split.validation.size()); ++i)
    prompt.push_back(source.split.validation[i]);
  return source.tokenizer->decode(sample(model, prompt, {.tokens = kTokens}));
}

enum class Purpose { kTrain, kPreflight, kInit };

/// `to` is the file that Purpose::kInit writes.
int train(Settings& table, GptSettings& s, Purpose purpose, const std::string& to) {
  settle_settings(table, s.train, [&] { complete_gpt_settings(s); });
  const TrainSettings& t = s.train;
  Runtime runtime({.device = choose_device(t.device),
                   .seed = static_cast<std::uint64_t>(t.seed),
                   .threads = static_cast<int>(t.threads),
                   .deterministic = t.deterministic,
                   .timed_plans = t.plans == "timed"});
  const amp::Policy policy = choose_policy(s.train);
  const TextSource source = read_text_source(t, s.tokenizer);

  const nn::init::SkipScope skip(t.loads);
  Gpt model(gpt_options(s, source.tokenizer->vocabulary_size()));
  check_overrides(policy, model, probe_loss(model));
  if (!t.init_from.empty() && !t.loads) load_weights(model, t.init_from);
  if (purpose == Purpose::kInit) return write_first_weights(model, t, to);
  const std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(t, model);
  amp::Trainer trainer(runtime, model, *optimizer, trainer_options(t, policy));

  auto loader = io::training_batches(
      source.split.train, {.context = s.context, .batch = t.batch, .seed = static_cast<std::uint64_t>(t.seed)});

  const auto maths = [&](const io::TextBatch& b) { return nn::cross_entropy(model(b.tokens), b.targets); };
  if (purpose == Purpose::kPreflight) return tell_as_json(preflight_and_tell(trainer, loader, maths));

  StateDict constants = run_constants(source.content, architecture_json(model.options()));
  constants.merge("progress/tokenizer", io::tokenizer_state(*source.tokenizer));
  amp::RunOptions run = run_options(std::string(amp::kBinadeGpt.name), "gpt", table, t, runtime, constants);
  run.unit = "tokens";
  run.units_per_step = static_cast<double>(t.batch * t.accumulate * s.context);
  run.score = "val_loss";
  run.evaluate = [&]() -> amp::Evaluation {
    const TextScore score = evaluate(model, source.split.validation, t.batch);
    return {.numbers = {{"val_loss", score.loss}, {"val_accuracy", score.accuracy}},
            .sample = sample_of(model, source)};
  };
  return train_and_tell(t, trainer, std::move(run), loader, maths);
}

/// A sub-command with the settings of a training.
Command add(CLI::App& program, const char* name, const char* help, Purpose purpose) {
  CLI::App* app = program.add_subcommand(name, help);
  auto settings = std::make_shared<GptSettings>();
  auto table = std::make_shared<Settings>();
  add_gpt_settings(*table, *settings);
  table->declare(*app);
  auto to = std::make_shared<std::string>();
  if (purpose == Purpose::kInit) app->add_option("file", *to, "safetensors file to write")->required();
  return [app, settings, table, purpose, to] {
    if (!app->parsed()) return 0;
    return run_training(*table, settings->train, "gpt", [&] { return train(*table, *settings, purpose, *to); });
  };
}

}  // namespace

Command add_train(CLI::App& program) {
  return add(program, "train", "Trains on text; commits checkpoints; evaluates on what was held out", Purpose::kTrain);
}

Command add_preflight(CLI::App& program) {
  return add(program, "preflight", "Lists what is risky about a training before its first step", Purpose::kPreflight);
}

Command add_init(CLI::App& program) {
  return add(program, "init", "Writes the weights that a training with these settings would start from",
             Purpose::kInit);
}

}  // namespace binade::examples
