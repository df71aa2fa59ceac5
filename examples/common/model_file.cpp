#include "examples/common/model_file.h"

#include <optional>

#include "binade/autograd/trace.h"
#include "binade/io/checkpoint/find.h"
#include "binade/io/files/run_folder.h"
#include "binade/io/terminal/console.h"
#include "examples/common/train_program.h"

namespace binade::examples {

namespace {

struct Chosen {
  std::string path;
  StateDict state;
};

Chosen choose(const ModelChoice& choice) {
  const std::string& name = choice.checkpoint;
  const std::optional<io::CheckpointChoice> of_run = name.empty() ? io::CheckpointChoice{}
                                                                  : io::checkpoint_choice(name);
  if (!of_run) return {name, io::load_checkpoint(name).state};
  check<ArgumentError>(!choice.run.empty(), "{}: which model?",
                       name.empty() ? "wanted --run DIR or --checkpoint FILE"
                                    : fmt::format("--checkpoint {}: wanted --run DIR with it", name));
  io::FoundCheckpoint found = io::find_checkpoint(choice.run + "/checkpoints", *of_run);
  io::say(fmt::format("checkpoint {}: {}", found.file, found.why));
  return {fmt::format("{}/checkpoints/{}", choice.run, found.file), std::move(found.state)};
}

}  // namespace

void add_model_settings(Settings& table, ModelChoice& choice) {
  table.add("run", &choice.run, "run folder", {.value = "DIR"});
  table.add("checkpoint", &choice.checkpoint,
            "of --run the best, the newest or that of a step (default: the best if any has a score, else the newest), "
            "or a file",
            {.value = "best|newest|STEP|FILE"});
  table.add("threads", &choice.threads, "CPU threads (0: all)", {.low = 0, .high = 1024});
  table.add("device", &choice.device, "device to run on", {.value = "auto|cpu|cuda[:N]"});
}

RuntimeOptions runtime_options(const ModelChoice& choice) {
  return {.device = choose_device(choice.device), .threads = static_cast<int>(choice.threads)};
}

StateDict read_checkpoint(const ModelChoice& choice, const std::string& program, const std::string& flags) {
  Chosen chosen = choose(choice);
  check<CheckpointError>(chosen.state.contains("progress/architecture"),
                         "checkpoint {0}: it holds weights alone, as binade-doctor import writes them; the shape of "
                         "the model and what its inputs mean are missing. One step that changes nothing makes a run "
                         "with both: {1} train --init-from {0} --run RUN {2} --batch 1 --steps 1 --lr 0 --min-lr 0; "
                         "then use --run RUN",
                         chosen.path, program, flags);
  return std::move(chosen.state);
}

PrecisionPolicy policy_of(const StateDict& checkpoint) {
  try {
    return PrecisionPolicy::from_string(checkpoint.text("amp/policy"));
  } catch (const ArgumentError& error) {
    throw CheckpointError(fmt::format("checkpoint: {}", error.what()));
  }
}

std::string describe_modules(nn::Module& model, const Variable& output) {
  std::string text = "modules\n";
  for (const auto& [path, module] : nn::named_modules(model))
    text += fmt::format("  {:<36} {}\n", path.empty() ? "(root)" : path, module->kind());
  text += "parameters\n";
  for (const auto& [name, p] : nn::named_parameters(model))
    text += fmt::format("  {:<36} {}\n", name, p->shape().to_string());
  for (const auto& [name, b] : nn::named_buffers(model))
    text += fmt::format("  {:<36} {} (buffer)\n", name, b->value().shape().to_string());
  text += "ops\n";
  for (const RecordedOp& op : recorded_ops(output))
    text += fmt::format("  {:>4}  {:<30} {}\n", op.tape_index, op.module_path, op.op);
  return text + fmt::format("{} parameters\n", nn::count_parameters(model));
}

void add_eval_settings(Settings& t, EvalSettings& s) {
  add_model_settings(t, s.model);
  t.add("data", &s.data.data, "data that the run was trained on", {.value = "PATH"});
  t.add("val-data", &s.data.val_data, "separate held-out data", {.value = "PATH"});
  t.add("val-fraction", &s.data.val_fraction, "share held out of --data", {.low = 1e-9, .high = 0.9});
}

void resolve_eval_settings(Settings& table, EvalSettings& s, Settings& stored, const TrainSettings& trained) {
  table.apply_flags();
  if (!s.model.run.empty()) stored.apply_json(io::read_run_config(s.model.run), s.model.run + "/config.json");
  if (!table.given("val-fraction")) s.data.val_fraction = trained.val_fraction;
  if (!table.given("data")) {
    s.data.data = trained.data;
    if (!table.given("val-data")) s.data.val_data = trained.val_data;
  }
}

}  // namespace binade::examples
