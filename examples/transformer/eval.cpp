#include <CLI/CLI.hpp>
#include <cstdio>

#include "examples/common/model_file.h"
#include "examples/common/program.h"
#include "examples/transformer/commands.h"
#include "examples/transformer/evaluation.h"
#include "examples/transformer/gpt_settings.h"
#include "examples/transformer/text_source.h"
#include "io/json_lines.h"
#include "io/run_folder.h"

namespace binade::examples {
namespace {

struct EvalSettings {
  ModelChoice model;
  TrainSettings data;
};

/// --data and --val-fraction default to what the run was trained with.
void take_data_from_run(Settings& table, EvalSettings& s) {
  if (s.model.run.empty()) return;
  GptSettings trained;
  Settings stored;
  add_gpt_settings(stored, trained);
  stored.apply_json(io::read_run_config(s.model.run), s.model.run + "/config.json");
  if (!table.given("data")) s.data.data = trained.train.data;
  if (!table.given("val-data")) s.data.val_data = table.given("data") ? "" : trained.train.val_data;
  if (!table.given("val-fraction")) s.data.val_fraction = trained.train.val_fraction;
}

int eval(Settings& table, EvalSettings& s) {
  table.apply_flags();
  s.data.run = s.model.run;
  take_data_from_run(table, s);
  if (s.data.val_fraction == 0) s.data.val_fraction = 0.1;
  Runtime runtime({.device = choose_device(s.data.device), .threads = static_cast<int>(s.data.threads)});
  const StateDict checkpoint = read_checkpoint(s.model);
  Gpt model(parse_architecture(checkpoint.text("progress/architecture")));
  load_model(model, checkpoint);
  const TextSource source = read_text_source(s.data, "",
                                             io::restore_tokenizer(checkpoint.section("progress/tokenizer")));
  const PolicyScope policy(policy_of(checkpoint));
  const TextScore score = evaluate(model, source.split.validation, s.data.batch);
  std::printf("%s\n", io::JsonObject()
                          .add("step", checkpoint.integer("progress/step"))
                          .add("val_loss", static_cast<float>(score.loss))
                          .add("val_accuracy", static_cast<float>(score.accuracy))
                          .add("tokens", score.tokens)
                          .text()
                          .c_str());
  return 0;
}

}  // namespace

Command add_eval(CLI::App& program) {
  CLI::App* app = program.add_subcommand("eval", "Reads the whole held-out text; prints one JSON object");
  auto s = std::make_shared<EvalSettings>();
  auto table = std::make_shared<Settings>();
  s->data.batch = 16;
  table->add({.name = "run", .target = &s->model.run, .help = "run folder: its newest verified checkpoint"});
  table->add({.name = "checkpoint", .target = &s->model.checkpoint, .help = "one checkpoint file"});
  table->add({.name = "data", .target = &s->data.data, .help = "text (the run's own when left out)"});
  table->add({.name = "val-data", .target = &s->data.val_data, .help = "held-out text of its own"});
  table->add({.name = "val-fraction",
              .target = &s->data.val_fraction,
              .help = "share held out of --data",
              .low = 0,
              .high = 0.9});
  table->add({.name = "batch", .target = &s->data.batch, .help = "windows at once", .low = 1, .high = 1 << 20});
  table->add({.name = "threads", .target = &s->data.threads, .help = "CPU threads (0: all)", .low = 0, .high = 1024});
  table->add({.name = "device", .target = &s->data.device, .help = "auto, cpu, cuda or cuda:N"});
  table->declare(*app);
  return [app, s, table] { return app->parsed() ? eval(*table, *s) : 0; };
}

}  // namespace binade::examples
