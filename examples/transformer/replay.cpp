#include <CLI/CLI.hpp>

#include "examples/common/replay_program.h"
#include "examples/common/train_program.h"
#include "examples/transformer/gpt_commands.h"
#include "examples/transformer/gpt_settings.h"

namespace binade::examples {
namespace {

int replay(const std::string& path) {
  GptSettings s;
  Settings table;
  add_gpt_settings(table, s);
  const StateDict capsule = open_capsule(path, table);
  complete_gpt_settings(s);
  const TrainSettings& t = s.train;
  Runtime runtime({.device = choose_device(t.device),
                   .seed = static_cast<std::uint64_t>(t.seed),
                   .threads = static_cast<int>(t.threads),
                   .deterministic = t.deterministic,
                   .timed_plans = t.plans == "timed"});
  const nn::init::SkipScope skip;
  Gpt model(read_gpt_architecture(capsule));
  const std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(t, model);
  amp::Trainer trainer(runtime, model, *optimizer, trainer_options(t, choose_policy(s.train)));
  return tell_replay(trainer.replay<io::TextBatch>(capsule, [&](const io::TextBatch& b) {
    return nn::cross_entropy(model(b.tokens), b.targets);
  }));
}

}  // namespace

Command add_replay(CLI::App& program) {
  CLI::App* app = program.add_subcommand("replay", "Runs the failed attempt of an incident's capsule again");
  auto path = std::make_shared<std::string>();
  app->add_option("capsule", *path, "capsule.h5 of an incident")->required();
  return [app, path] { return app->parsed() ? replay(*path) : 0; };
}

}  // namespace binade::examples
