#include <CLI/CLI.hpp>

#include "binade/core/error.h"
#include "binade/core/version.h"
#include "binade/doctor/commands.h"
#include "binade/run/command_line.h"

int main(int argc, char** argv) {
  using namespace binade;
  CLI::App app("Looks after Binade's checkpoints and runs.", "binade-doctor");
  app.set_version_flag("--version", std::string(build_id()));
  app.require_subcommand(1);

  CLI::App* env = app.add_subcommand("env", "versions, processor, threads and device");

  std::string path, other;
  bool all = false;
  CLI::App* inspect = app.add_subcommand("inspect", "prints the contents of a checkpoint or a run folder");
  inspect->add_option("path", path, "checkpoint file or run folder")->required();
  inspect->add_flag("--all", all, "every entry, not one screen");
  std::string checkpoint;
  const auto add_checkpoint_option = [&](CLI::App* command, std::string& which, const char* usual) {
    command->add_option("--checkpoint", which, fmt::format("of a run folder: best, newest or a step ({})", usual));
  };
  add_checkpoint_option(inspect, checkpoint, "newest");

  CLI::App* verify = app.add_subcommand("verify",
                                        "checks that a checkpoint, or every one of a run, is intact; exit 22 if not");
  verify->add_option("path", path, "checkpoint file or run folder")->required();

  CLI::App* hash = app.add_subcommand("hash", "the state hash of a checkpoint, as --state-hash prints it in a run");
  hash->add_option("path", path, "checkpoint file or run folder")->required();
  add_checkpoint_option(hash, checkpoint, "newest");

  CLI::App* diff = app.add_subcommand("diff",
                                      "prints the differences between two checkpoints; exit 1 if there are any");
  diff->add_option("a", path, "checkpoint file")->required();
  diff->add_option("b", other, "checkpoint file")->required();
  diff->add_flag("--all", all, "every entry that differs, not one screen");

  std::string output;
  CLI::App* report = app.add_subcommand("report", "one HTML page about a run: curves, headroom, incidents, samples");
  report->add_option("run", path, "run folder; the run may still be running")->required();
  report->add_option("--output", output, "the page's file (report.html in the run folder)");

  CLI::App* replay = app.add_subcommand("replay", "runs the failed attempt of an incident again from its repro bundle");
  replay->add_option("bundle", path, "capsule.h5 of an incident")->required();
  replay->add_option("--program", other, "the program that wrote it (the one of that name beside this one)");

  doctor::ExchangeOptions exchange;
  const auto add_exchange_options = [&](CLI::App* command, const char* from, const char* to, const char* rows) {
    command->add_option("from", exchange.from, from)->required();
    command->add_option("to", exchange.to, to)->required();
    command
        ->add_option("--names", exchange.names,
                     "names and layouts in the other file: binade, auto (PyTorch's, for equal names), pytorch-unet, "
                     "hf-gpt2, or a file of rules (docs/exchange.md)")
        ->type_name("NAMES|FILE")
        ->capture_default_str();
    command->add_option("--vocabulary", exchange.vocabulary, rows)->check(CLI::PositiveNumber);
  };
  CLI::App* export_weights = app.add_subcommand("export",
                                                "model of a checkpoint: weights as safetensors, or a model file");
  add_exchange_options(export_weights, "checkpoint file or run folder",
                       "file to write: .safetensors, or .h5 for a model file",
                       "cut the token table to this many rows (hf-gpt2)");
  add_checkpoint_option(export_weights, exchange.checkpoint, "the best if any has a score, else the newest");
  CLI::App* import_weights = app.add_subcommand("import",
                                                "safetensors, or a file of torch.save(), as a checkpoint of weights "
                                                "alone, for --init-from");
  add_exchange_options(import_weights, "safetensors file, or file of torch.save()", "checkpoint file to write",
                       "pad the token table with zeros to this many rows (hf-gpt2)");
  import_weights->add_option("--entry", exchange.entry,
                             "dictionary in a file of torch.save() that has the weights, such as model");

  return amp::run_command_line(app, argc, argv, [&] {
    if (env->parsed()) return doctor::env();
    if (inspect->parsed()) return doctor::inspect(path, checkpoint, all);
    if (verify->parsed()) return doctor::verify(path);
    if (hash->parsed()) return doctor::hash(path, checkpoint);
    if (diff->parsed()) return doctor::diff(path, other, all);
    if (report->parsed()) return doctor::write_report(path, output);
    if (replay->parsed()) return doctor::replay(path, other);
    if (export_weights->parsed()) return doctor::export_weights(exchange);
    return doctor::import_weights(exchange);
  });
}
