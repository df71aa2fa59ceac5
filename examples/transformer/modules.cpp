#include <CLI/CLI.hpp>

#include "binade/io/terminal/console.h"
#include "examples/common/model_file.h"
#include "examples/transformer/gpt_commands.h"
#include "examples/transformer/gpt_settings.h"
#include "examples/transformer/probe.h"

namespace binade::examples {

Variable probe_loss(Gpt& model) {
  const Tensor tokens = Tensor::zeros({1, std::min<std::int64_t>(model.options().context, 2)}, DType::i32,
                                      Runtime::current_device());
  return nn::cross_entropy(model(tokens), tokens);
}

namespace {

int modules(Settings& table, GptSettings& s, std::int64_t vocabulary) {
  table.apply_flags();
  complete_gpt_settings(s);
  Runtime runtime;
  Gpt model(gpt_options(s, vocabulary));
  io::print(describe_modules(model, probe_loss(model)));
  return 0;
}

}  // namespace

Command add_modules(CLI::App& program) {
  CLI::App* app = program.add_subcommand("modules", "Prints every module path, parameter and op of a model");
  auto s = std::make_shared<GptSettings>();
  auto vocabulary = std::make_shared<std::int64_t>(256);
  auto table = std::make_shared<Settings>();
  add_gpt_settings(*table, *s);
  table->add({.name = "vocabulary", .target = vocabulary.get(), .help = "tokens known", .low = 1, .high = 1e9});
  table->declare(*app);
  return [app, s, vocabulary, table] { return app->parsed() ? modules(*table, *s, *vocabulary) : 0; };
}

}  // namespace binade::examples
