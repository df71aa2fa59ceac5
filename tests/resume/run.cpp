#include "tests/resume/run.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>

#include "binade/amp/state_hash.h"
#include "binade/io/checkpoint/store.h"

namespace binade::resume {

namespace {

constexpr std::int64_t kBadSample = 11;

amp::TrainerOptions trainer_options(const Plan& plan) {
  amp::TrainerOptions o{.precision = amp::Policy::by_name(plan.precision),
                        .schedule = plan.schedule,
                        .accumulate = plan.accumulate,
                        .steps = plan.steps,
                        .state_hash = true};
  o.clip_norm = plan.clip == "norm" ? 0.5 : 0;
  o.clip_value = plan.clip == "value" ? 0.05 : 0;
  o.clip_adaptive = plan.clip == "adaptive" ? 0.1 : 0;
  if (plan.averages) o.ema = plan.ema;
  if (plan.precision == "fp16") {
    o.loss_scale = amp::LossScaleOptions::dynamic(plan.fault == Fault::kLargeScale ? 0x1p40 : 0x1p12);
    o.loss_scale->growth_interval = 4;
    o.loss_scale->ceiling = 0x1p60;
  }
  o.remediation.promoted_steps = 12;
  if (plan.skips) o.on_nan = amp::OnNan::kSkip;
  if (plan.fault == Fault::kLargeProduct)
    for (std::int64_t i = 0; i < 3; ++i)
      o.inject.push_back(fmt::format("scale-weight@step={},path={},factor=3e5,view=1,again=1", plan.fault_at + i,
                                     plan.family->product));
  return o;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Plan& plan, nn::Module& model) {
  const DType moments = plan.bf16_moments ? DType::bf16 : DType::f32;
  if (plan.optimizer == "sgd")
    return std::make_unique<optim::Sgd>(
        model,
        optim::SgdOptions{.momentum = 0.9, .weight_decay = 1e-3, .nesterov = plan.nesterov, .moment_dtype = moments});
  if (plan.optimizer == "adam") return std::make_unique<optim::Adam>(model, optim::AdamOptions{});
  if (plan.optimizer == "adamw") return std::make_unique<optim::AdamW>(model, optim::AdamWOptions{});
  return std::make_unique<optim::Lion>(model, optim::LionOptions{.weight_decay = 1e-2, .moment_dtype = moments});
}

/// The objects of a training program.
struct Program {
  const Plan& plan;
  Runtime runtime;
  std::unique_ptr<Family> family;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<amp::Trainer> trainer;
  io::Loader<Batch> loader;

  Program(const Plan& p, const Session& session)
      : plan(p),
        runtime({.seed = p.seed, .threads = session.threads}),
        family(p.family->make()),
        optimizer(make_optimizer(p, family->model())),
        loader({.batch = p.batch,
                .seed = p.seed,
                .order = p.order,
                .samples = p.samples,
                .content = p.family->name,
                .prefetch = session.prefetch},
               [this](const io::BatchOrigin& origin) { return make(origin); }) {
    trainer = std::make_unique<amp::Trainer>(runtime, family->model(), *optimizer, trainer_options(p));
  }

  Batch make(const io::BatchOrigin& origin) const {
    Batch batch = family->make(origin.samples);
    if (plan.fault == Fault::kBadSample && plan.family->real_input)
      for (std::size_t row = 0; row < origin.samples.size(); ++row)
        if (origin.samples[row] == kBadSample)
          batch.x.mutable_data<float>()[static_cast<std::int64_t>(row) * (batch.x.numel() / batch.x.dim(0))] =
              std::numeric_limits<float>::quiet_NaN();
    return batch;
  }
  Variable loss(const Batch& batch) {
    const Variable loss = family->loss(batch);
    if (plan.fault != Fault::kBadSample || plan.family->real_input) return loss;
    return std::ranges::count(batch.origin.samples, kBadSample) > 0 ? loss * std::nan("") : loss;
  }
};

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Keeps the last line of each step: steps that were repeated after a resume have several.
std::string last_line_of_each_step(const std::string& text) {
  std::map<std::int64_t, std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines[std::stoll(line.substr(line.find(':') + 1))] = line;
  std::string result;
  for (const auto& [step, line] : lines) result += line + "\n";
  return result;
}

/// The first line that differs, as text.
std::string first_other_line(const std::string& a, const std::string& b) {
  std::istringstream left(a), right(b);
  for (std::string x, y; left || right; x.clear(), y.clear()) {
    std::getline(left, x);
    std::getline(right, y);
    if (x != y) return fmt::format("'{}' instead of '{}'", y, x);
  }
  return "";
}

/// Names of the entries of the first checkpoint that are missing or different in the second.
std::string other_entries(const std::string& a, const std::string& b) {
  const auto decoded = [](const std::string& bytes) {
    return io::decode_checkpoint(std::as_bytes(std::span(bytes))).state;
  };
  const StateDict left = decoded(a), right = decoded(b);
  std::string names;
  for (const auto& [name, value] : left.values())
    if (!right.contains(name) || !same_value(value, right.values().at(name))) names += " " + name;
  return names;
}

}  // namespace

void run_session(const Plan& plan, const Session& session, const std::string& folder) {
  Program program(plan, session);
  const std::vector<std::int64_t> held_out = {1000, 1001, 1002, 1003};
  const Batch validation = program.family->make(held_out);
  std::int64_t calls = 0;
  const auto strikes = [&](Cut cut) { return session.cut == cut && session.calls >= 0 && calls >= session.calls; };
  bool struck = false;
  const auto strike = [&] {
    if (!std::exchange(struck, true)) std::raise(SIGTERM);
  };

  amp::RunOptions options{.folder = folder,
                          .steps = plan.steps,
                          .checkpoint_every = session.checkpoint_every,
                          .eval_every = plan.eval_every,
                          .log_every = 1'000'000,
                          .keep = session.keep};
  options.score = "val_loss";
  options.evaluate = [&]() -> amp::Evaluation {
    if (strikes(Cut::kSignalInEvaluation) && !struck) {
      strike();
      throw amp::EvaluationStopped();
    }
    return {.numbers = {{"val_loss", program.family->loss(validation).value().item()}}};
  };
  amp::TrainingRun run(*program.trainer, options);
  run.resume_if_possible();
  for (const auto& batch : run.batches(program.loader)) {
    ++calls;
    const amp::StepResult result = run.step(batch, [&](const Batch& b) {
      if (strikes(Cut::kSignalInStep)) strike();
      return program.loss(b);
    });
    // If the plan skips bad batches, the signal comes after a skipped batch and before its replacement.
    if (strikes(Cut::kSignal) && !(plan.skips && result.committed)) strike();
    if (strikes(Cut::kDeath)) return;
  }
}

StateDict initial_state(const Plan& plan) {
  Program program(plan, {});
  program.trainer->attach(program.loader);
  return program.trainer->state();
}

bool same_value(const StateDict::Value& a, const StateDict::Value& b) {
  StateDict one, other;
  one.put("model/it", a);
  other.put("model/it", b);
  return amp::state_hash(one) == amp::state_hash(other);
}

Outcome outcome_of(const Plan& plan, const std::string& folder) {
  Outcome outcome{bytes_of(folder + "/checkpoints/" + io::checkpoint_file_name(plan.steps)),
                  bytes_of(folder + "/metrics.jsonl"), last_line_of_each_step(bytes_of(folder + "/headroom.jsonl"))};
  check<DataError>(!outcome.checkpoint.empty() && !outcome.metrics.empty(), "the run in {} did not end", folder);
  return outcome;
}

std::string difference(const Outcome& control, const Outcome& other) {
  if (control == other) return "";
  if (control.metrics != other.metrics) return "metrics.jsonl: " + first_other_line(control.metrics, other.metrics);
  if (control.headroom != other.headroom)
    return "headroom.jsonl: " + first_other_line(control.headroom, other.headroom);
  return "the last checkpoint:" + other_entries(control.checkpoint, other.checkpoint);
}

}  // namespace binade::resume
