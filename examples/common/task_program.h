#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/step/override_names.h"
#include "binade/core/state_counts.h"
#include "binade/io/records/json_lines.h"
#include "binade/io/terminal/console.h"
#include "examples/common/bench.h"
#include "examples/common/command.h"
#include "examples/common/model_file.h"
#include "examples/common/train_program.h"

/// A program that trains one kind of model is defined by a struct, its task, and has the commands below. GptTask and
/// UNetTask are examples. A task has these types and static members:
///
///     Setup, EvalSetup             settings of `train` (with a member `TrainSettings train`); settings of `eval`,
///                                  derived from EvalSettings
///     Model, Batch, Data           Model::options(); Data::content is the hash of the data
///     texts, inputs                a TaskTexts; an InputCount for the flags of `modules`
///     add_setup(table, setup)      flags of `train`; complete(setup) fills in the settings that follow from others
///     add_eval_setup(table, setup) flags of `eval`
///     read_data(setup)             -> Data
///     count_inputs(data)           -> n, the number of the model's inputs (tokens or channels)
///     model_options(setup, n)      -> the options of a model with n inputs
///     model_options(checkpoint)    -> the options of the model that a checkpoint holds; throws CheckpointError
///     start(model, setup, data)    sets initial weights that depend on the data; may do nothing
///     probe(setup, model)          -> the loss on the smallest possible batch, which has the ops of a training step
///     loader(setup, data)          -> the training batches
///     loss(setup, model, batch)    -> a tensor of one element
///     units_per_sample(setup)      -> the number of units (TaskTexts::unit) in a sample
///     add_constants(state, setup, data)     adds entries that every checkpoint holds
///     evaluate(setup, model, data)          -> amp::Evaluation, during training
///     evaluate_checkpoint(result, model, checkpoint, s)   adds the metrics that `eval` prints to `result`
///     workloads(), workload(name, batch), tune(train)    for `bench`: names; a BenchWorkload; optimizer settings
namespace binade::examples {

/// Texts of a program.
struct TaskTexts {
  const char *program, *run;                 ///< name of the program; prefix of new run folders
  const char *about, *train, *eval, *bench;  ///< help texts of the program and of three of its commands
  const char* weights;                       ///< flags with which `train` makes a run from a file of weights alone
  const char *unit, *score;                  ///< unit of throughput; metric that selects the best checkpoint
  bool higher_is_better = false;
};

/// The flag of `modules` for a model's number of inputs.
struct InputCount {
  const char *name, *help;
  std::int64_t usual;  ///< value if the flag is not given
  double most;         ///< largest allowed value
};

/// A workload of `bench`: a model and the batch of every step.
template <class Task>
struct BenchWorkload {
  decltype(Task::model_options(std::declval<const StateDict&>())) model{};
  typename Task::Batch batch{};
  std::function<Variable(typename Task::Model&, const typename Task::Batch&)> loss{};
};

/// The three commands that need the settings of a training.
enum class Purpose { kTrain, kPreflight, kInit };

/// Depending on `purpose`, trains, or lists the risks of the training, or writes its initial weights to the file `to`.
template <class Task>
int train(Settings& table, typename Task::Setup& s, Purpose purpose, const std::string& to) {
  resolve_settings(table, s.train, [&] { Task::complete(s); });
  const TrainSettings& t = s.train;
  const std::shared_ptr<Communicator> ranks = open_ranks(t.rank_deadline);
  Runtime runtime(runtime_options(t));
  const amp::Policy policy = choose_policy(s.train);
  const typename Task::Data data = Task::read_data(s);

  const nn::init::SkipScope skip(t.loads_checkpoint);
  typename Task::Model model(Task::model_options(s, Task::count_inputs(data)));
  {
    const PolicyScope scope(policy);
    amp::OverrideNames names(model);
    {
      const ObserverScope watched(names);
      Task::probe(s, model);
    }
    names.check(policy);
  }
  if (!t.init_from.empty() && !t.loads_checkpoint) load_weights(model, t.init_from);
  if (t.init_from.empty() && !t.loads_checkpoint) Task::start(model, s, data);
  if (purpose == Purpose::kInit) return write_first_weights(model, t, to);
  const std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(t, model);
  amp::Trainer trainer(runtime, model, *optimizer, trainer_options(t, policy, ranks));

  auto loader = Task::loader(s, data);
  const auto loss = [&](const typename Task::Batch& batch) { return Task::loss(s, model, batch); };
  if (purpose == Purpose::kPreflight) return print_preflight_json(run_preflight(trainer, loader, loss));

  StateDict constants = run_constants(data.content, architecture_json(model.options()));
  Task::add_constants(constants, s, data);
  amp::RunOptions run = run_options(Task::texts.program, Task::texts.run, table, t, runtime, constants);
  run.unit = Task::texts.unit;
  run.units_per_step = static_cast<double>(t.batch * t.accumulate * Task::units_per_sample(s));
  run.score = Task::texts.score;
  run.higher_is_better = Task::texts.higher_is_better;
  run.evaluate = [&] { return Task::evaluate(s, model, data); };
  return run_training_loop(t, trainer, std::move(run), loader, loss);
}

template <class Task>
Command add_train(CLI::App& program, const char* name, const char* help, Purpose purpose) {
  Argument to;
  if (purpose == Purpose::kInit) to = {"file", "safetensors file to write", std::make_shared<std::string>()};
  const auto body = [purpose, to](Settings& table, typename Task::Setup& s) {
    return run_training(table, s.train, Task::texts.run, purpose == Purpose::kTrain,
                        [&] { return train<Task>(table, s, purpose, to.value ? *to.value : ""); });
  };
  return add_command<typename Task::Setup>(program, name, help, Task::add_setup, body, to);
}

/// Evaluates the model of a checkpoint on the held-out data; prints one JSON object.
template <class Task>
int eval(Settings& table, typename Task::EvalSetup& s) {
  typename Task::Setup trained;
  Settings stored;
  Task::add_setup(stored, trained);
  resolve_eval_settings(table, s, stored, trained.train);
  Runtime runtime(runtime_options(s.model));
  const StateDict checkpoint = read_checkpoint(s.model, Task::texts.program, Task::texts.weights);
  const nn::init::SkipScope skip;
  typename Task::Model model(Task::model_options(checkpoint));
  load_weights(model, checkpoint);
  const PolicyScope policy(policy_of(checkpoint));
  io::JsonObject result;
  result.add("step", read_count(checkpoint, "progress/step"));
  Task::evaluate_checkpoint(result, model, checkpoint, s);
  io::print(result.text() + "\n");
  return 0;
}

/// Settings of `modules`: the model and its number of inputs.
template <class Task>
struct ModulesSetup {
  typename Task::Setup model{};
  std::int64_t inputs = Task::inputs.usual;

  static void add(Settings& table, ModulesSetup& s) {
    Task::add_setup(table, s.model);
    table.add(Task::inputs.name, &s.inputs, Task::inputs.help, {.low = 1, .high = Task::inputs.most});
  }
};

template <class Task>
int modules(Settings& table, ModulesSetup<Task>& s) {
  table.apply_flags();
  Task::complete(s.model);
  Runtime runtime;
  typename Task::Model model(Task::model_options(s.model, s.inputs));
  io::print(describe_modules(model, Task::probe(s.model, model)));
  return 0;
}

template <class Task>
int bench(Settings& table, BenchSettings& s) {
  table.apply_flags();
  Runtime runtime(runtime_options(s.train));
  const amp::Policy policy = choose_policy(s.train);
  const BenchWorkload<Task> timed = Task::workload(s.workload, s.batch);
  typename Task::Model model(timed.model);
  s.train.lr = 1e-4;
  Task::tune(s.train);
  const auto optimizer = make_optimizer(s.train, model);
  amp::Trainer trainer(runtime, model, *optimizer, {.precision = policy, .record = s.record, .ahead = kStepsAhead});
  const typename Task::Batch batch = timed.batch.to(runtime.device());
  return run_bench(s, trainer, nn::count_parameters(model),
                   [&] { trainer.step(batch, [&](const typename Task::Batch& b) { return timed.loss(model, b); }); });
}

/// Runs the failed attempt of a repro bundle again.
template <class Task>
int replay(const std::string& path) {
  typename Task::Setup s;
  Settings table;
  Task::add_setup(table, s);
  const StateDict bundle = open_repro_bundle(path, table);
  Task::complete(s);
  const TrainSettings& t = s.train;
  Runtime runtime(runtime_options(t));
  const nn::init::SkipScope skip;
  typename Task::Model model(Task::model_options(bundle));
  const std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(t, model);
  amp::Trainer trainer(runtime, model, *optimizer, trainer_options(t, choose_policy(s.train)));
  return report_replay(trainer.replay<typename Task::Batch>(bundle, [&](const typename Task::Batch& batch) {
    return Task::loss(s, model, batch);
  }));
}

template <class Task>
Command add_replay(CLI::App& program) {
  const Argument path{"bundle", "capsule.h5 of an incident", std::make_shared<std::string>()};
  return add_command(
      program, "replay", "Runs the failed attempt of an incident again from its repro bundle",
      std::make_shared<Settings>(), [path] { return replay<Task>(*path.value); }, path);
}

/// Declares an additional command of a program.
using AddCommand = Command (*)(CLI::App& program);

/// Implements main() of a task's program with the commands of every task and the task's own. Returns the exit code.
template <class Task>
int run_task(int argc, const char* const* argv, const std::vector<AddCommand>& own = {}) {
  return run_program(Task::texts.program, Task::texts.about, argc, argv, [&own](CLI::App& app) {
    std::vector<Command> commands{
        add_train<Task>(app, "train", Task::texts.train, Purpose::kTrain),
        add_train<Task>(app, "preflight", "Lists the risks of a training before its first step", Purpose::kPreflight),
        add_train<Task>(app, "init", "Writes the weights that a training with these settings would start from",
                        Purpose::kInit),
        add_command<typename Task::EvalSetup>(app, "eval", Task::texts.eval, Task::add_eval_setup, eval<Task>),
        add_command<ModulesSetup<Task>>(app, "modules", "Prints every module path, parameter and op of a model",
                                        ModulesSetup<Task>::add, modules<Task>),
        add_command<BenchSettings>(
            app, "bench", Task::texts.bench,
            [](Settings& table, BenchSettings& s) { add_bench_settings(table, s, Task::workloads()); }, bench<Task>),
        add_replay<Task>(app)};
    for (const AddCommand add : own) commands.push_back(add(app));
    return commands;
  });
}

}  // namespace binade::examples
