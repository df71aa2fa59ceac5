#include <CLI/CLI.hpp>

#include "binade/core/state_counts.h"
#include "binade/io/records/json_lines.h"
#include "binade/io/terminal/console.h"
#include "examples/common/eval_settings.h"
#include "examples/common/program.h"
#include "examples/transformer/evaluation.h"
#include "examples/transformer/gpt_commands.h"
#include "examples/transformer/gpt_settings.h"
#include "examples/transformer/text_source.h"

namespace binade::examples {
namespace {

int eval(Settings& table, EvalSettings& s) {
  GptSettings trained;
  Settings stored;
  add_gpt_settings(stored, trained);
  settle_eval_settings(table, s, stored, trained.train);
  Runtime runtime({.device = choose_device(s.data.device), .threads = static_cast<int>(s.data.threads)});
  const StateDict checkpoint = read_checkpoint(s.model, "binade-gpt", kGptRunOfWeights);
  const nn::init::SkipScope skip;
  Gpt model(read_gpt_architecture(checkpoint));
  load_model(model, checkpoint);
  const TextSource source = read_text_source(s.data, "",
                                             io::restore_tokenizer(checkpoint.section("progress/tokenizer")));
  const PolicyScope policy(policy_of(checkpoint));
  const TextScore score = evaluate(model, source.split.validation, s.data.batch);
  io::print(io::JsonObject()
                .add("step", read_count(checkpoint, "progress/step"))
                .add("val_loss", static_cast<float>(score.loss))
                .add("val_accuracy", static_cast<float>(score.accuracy))
                .add("tokens", score.tokens)
                .text() +
            "\n");
  return 0;
}

}  // namespace

Command add_eval(CLI::App& program) {
  CLI::App* app = program.add_subcommand("eval", "Reads the whole held-out text; prints one JSON object");
  auto s = std::make_shared<EvalSettings>();
  auto table = std::make_shared<Settings>();
  s->data.batch = 16;
  add_eval_settings(*table, *s);
  table->add({.name = "batch", .target = &s->data.batch, .help = "windows at once", .low = 1, .high = 1 << 20});
  table->declare(*app);
  return [app, s, table] { return app->parsed() ? eval(*table, *s) : 0; };
}

}  // namespace binade::examples
