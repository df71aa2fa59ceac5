#include "examples/common/train_settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "binade/core/error.h"
#include "binade/optim/schedule.h"

namespace binade::examples {
namespace {

constexpr double kCount = 1e15;  // counts up to here are exact in a double

void add_data(Settings& t, TrainSettings& s) {
  t.add({.name = "data",
         .target = &s.data,
         .help = "what to train on (embedded data when left out)",
         .on_resume = OnResume::kByContent,
         .value = "PATH"});
  t.add({.name = "val-data",
         .target = &s.val_data,
         .help = "held-out data of its own",
         .on_resume = OnResume::kByContent,
         .value = "PATH"});
  t.add({.name = "val-fraction",
         .target = &s.val_fraction,
         .help = "share held out of --data, rounded down, at least 1",
         .on_resume = OnResume::kFixed,
         .low = 1e-9,
         .high = 0.9});
  t.add({.name = "run",
         .target = &s.run,
         .help = "run folder (a new one under runs/)",
         .on_resume = OnResume::kByContent,
         .value = "DIR"});
  t.add({.name = "resume",
         .target = &s.resume,
         .help = "go on from the run's newest verified checkpoint; auto: where there is none, begin",
         .on_resume = OnResume::kNotASetting,
         .choices = {"must", "auto"},
         .bare = "must"});
  t.add({.name = "supervise",
         .target = &s.supervise,
         .help = "run as a child that is started again when it dies",
         .on_resume = OnResume::kNotASetting});
  t.add({.name = "config",
         .target = &s.config,
         .help = "the same settings as a JSON file; flags win",
         .on_resume = OnResume::kNotASetting,
         .value = "FILE"});
  t.add({.name = "init-from",
         .target = &s.init_from,
         .help = "start from the weights of a checkpoint or safetensors file",
         .on_resume = OnResume::kFixed,
         .value = "FILE"});
}

void add_run(Settings& t, TrainSettings& s) {
  t.add({.name = "steps",
         .target = &s.steps,
         .help = "committed updates in the run's whole life",
         .on_resume = OnResume::kMayChange,
         .low = 1,
         .high = kCount});
  t.add({.name = "batch", .target = &s.batch, .help = "samples per micro-batch", .low = 1, .high = 1 << 20});
  t.add({.name = "accumulate", .target = &s.accumulate, .help = "micro-batches per update", .low = 1, .high = 1 << 20});
  t.add({.name = "seed",
         .target = &s.seed,
         .help = "fixes every random number",
         .on_resume = OnResume::kFixed,
         .low = 0,
         .high = kCount});
  t.add({.name = "threads",
         .target = &s.threads,
         .help = "CPU threads (0: all); the bits do not depend on it",
         .on_resume = OnResume::kMayChange,
         .low = 0,
         .high = 1024});
  t.add({.name = "deterministic", .target = &s.deterministic, .help = "the same bits every time"});
  t.add({.name = "plans",
         .target = &s.plans,
         .help = "on a GPU: libraries' algorithms, by time (once a machine) or the first they name",
         .on_resume = OnResume::kMayChange,
         .choices = {"timed", "first"}});
  t.add({.name = "record",
         .target = &s.record,
         .help = "on a GPU: make ordinary steps as one recorded piece of work each",
         .on_resume = OnResume::kMayChange});
  t.add({.name = "device",
         .target = &s.device,
         .help = "where it runs",
         .on_resume = OnResume::kMayChange,
         .value = "auto|cpu|cuda[:N]"});
  t.add({.name = "checkpoint-every",
         .target = &s.checkpoint_every,
         .help = "updates between checkpoints (0: by --checkpoint-minutes alone)",
         .on_resume = OnResume::kMayChange,
         .low = 0,
         .high = kCount});
  t.add({.name = "checkpoint-minutes",
         .target = &s.checkpoint_minutes,
         .help = "longest time between checkpoints, the first after the first update (0: by steps alone)",
         .on_resume = OnResume::kMayChange,
         .low = 0,
         .high = 1e6});
  t.add({.name = "save-failure",
         .target = &s.save_failure,
         .help = "what a checkpoint that cannot be written leads to: it is tried again later, or the end",
         .on_resume = OnResume::kMayChange,
         .choices = {"continue", "stop"}});
  t.add({.name = "keep",
         .target = &s.keep,
         .help = "newest checkpoints kept, beside the best, the last good one and the next to become good",
         .on_resume = OnResume::kMayChange,
         .low = 1,
         .high = 10000});
  t.add({.name = "eval-every",
         .target = &s.eval_every,
         .help = "updates between evaluations (0: at the end)",
         .on_resume = OnResume::kMayChange,
         .low = 0,
         .high = kCount});
  t.add({.name = "log-every",
         .target = &s.log_every,
         .help = "updates between lines on the terminal",
         .on_resume = OnResume::kMayChange,
         .low = 1,
         .high = kCount});
  t.add({.name = "state-hash",
         .target = &s.state_hash,
         .help = "write the state's SHA-256 before and after every attempt",
         .on_resume = OnResume::kMayChange});
  t.add({.name = "forecast-memory",
         .target = &s.forecast_memory,
         .help = "say what a step needs before the first one, and refuse one that does not fit",
         .on_resume = OnResume::kMayChange});
  t.add({.name = "on-nan",
         .target = &s.on_nan,
         .help = "what an incident leads to: the cheapest remedy that works, the next batch, or the end",
         .choices = {"ladder", "skip", "stop"}});
  t.add({.name = "inject",
         .target = &s.inject,
         .help = "fire drill: KIND@step=K[,key=value...], see docs/incidents.md",
         .on_resume = OnResume::kMayChange,
         .value = "SPEC"});
}

void add_precision(Settings& t, TrainSettings& s) {
  t.add({.name = "precision",
         .target = &s.precision,
         .help = "what products compute in (bf16 where the hardware has it, else fp32)",
         .choices = {"fp32", "tf32", "fp16", "bf16", "fp8", "pure-fp16", "pure-bf16"}});
  t.add({.name = "override",
         .target = &s.overrides,
         .help = "GLOB=P: module path or op to fp32, fp16 or bf16; the last match wins",
         .value = "GLOB=P"});
  t.add({.name = "loss-scale",
         .target = &s.loss_scale,
         .help = "how small gradients are kept from vanishing; auto: dynamic in fp16, else off",
         .value = "auto|dynamic|off|X"});
  t.add({.name = "init-scale",
         .target = &s.init_scale,
         .help = "of --loss-scale dynamic, the scale of the first step; auto: from a measured backward",
         .value = "X|auto"});
}

void add_optimizer(Settings& t, TrainSettings& s) {
  t.add({.name = "optimizer",
         .target = &s.optimizer,
         .help = "how weights move",
         .on_resume = OnResume::kIncompatible,
         .choices = {"sgd", "adam", "adamw", "lion"}});
  t.add({.name = "lr", .target = &s.lr, .help = "peak learning rate", .low = 0, .high = 1e6});
  t.add({.name = "min-lr", .target = &s.min_lr, .help = "where the schedule ends", .low = 0, .high = 1e6});
  t.add({.name = "warmup", .target = &s.warmup, .help = "updates of linear warm-up", .low = 0, .high = kCount});
  t.add({.name = "schedule",
         .target = &s.schedule,
         .help = "after the warm-up",
         .choices = {optim::schedule_names().begin(), optim::schedule_names().end()}});
  t.add({.name = "schedule-steps",
         .target = &s.schedule_steps,
         .help = "where the schedule reaches --min-lr (the first --steps)",
         .low = 0,
         .high = kCount});
  t.add({.name = "beta1", .target = &s.beta1, .help = "Adam, Lion", .low = 0, .high = 1});
  t.add({.name = "beta2", .target = &s.beta2, .help = "Adam, Lion", .low = 0, .high = 1});
  t.add({.name = "eps", .target = &s.eps, .help = "Adam", .low = 0, .high = 1});
  t.add({.name = "momentum", .target = &s.momentum, .help = "SGD", .low = 0, .high = 1});
  t.add({.name = "weight-decay", .target = &s.weight_decay, .help = "on matrices and filters", .low = 0, .high = 1e6});
  t.add({.name = "clip", .target = &s.clip, .help = "gradient clipping bound (0: none)", .low = 0, .high = 1e9});
  t.add({.name = "clip-mode",
         .target = &s.clip_mode,
         .help = "what --clip bounds",
         .choices = {"norm", "value", "adaptive"}});
  t.add({.name = "ema", .target = &s.ema, .help = "decay of averaged weights (0: none)", .low = 0, .high = 1});
}

void check_scale(const char* flag, const std::string& text, const std::vector<std::string>& words) {
  if (std::ranges::find(words, text) != words.end()) return;
  std::string wanted;
  for (const std::string& word : words) wanted += word + ", ";
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check<ArgumentError>(error == std::errc{} && end == text.data() + text.size() && value >= 0x1p-24 && value <= 0x1p127,
                       "{}: wanted {}or a number in [2^-24, 2^127], got '{}'", flag, wanted, text);
}

}  // namespace

void add_train_settings(Settings& table, TrainSettings& s) {
  add_data(table, s);
  add_run(table, s);
  add_precision(table, s);
  add_optimizer(table, s);
}

void complete_train_settings(TrainSettings& s) {
  if (s.schedule_steps == 0) s.schedule_steps = s.steps;
  check<ArgumentError>(s.min_lr <= s.lr, "--min-lr: wanted at most --lr {}, got {}", s.lr, s.min_lr);
  check<ArgumentError>(s.beta1 < 1 && s.beta2 < 1, "--beta1, --beta2: wanted less than 1, got {} and {}", s.beta1,
                       s.beta2);
  check<ArgumentError>(s.ema < 1, "--ema: wanted less than 1, got {}", s.ema);
  check_scale("--loss-scale", s.loss_scale, {"auto", "dynamic", "off"});
  check_scale("--init-scale", s.init_scale, {"auto"});
  for (const std::string& o : s.overrides) {
    const std::size_t equals = o.rfind('=');
    const std::string dtype = equals == o.npos ? "" : o.substr(equals + 1);
    check<ArgumentError>(equals != o.npos && equals > 0 && (dtype == "fp32" || dtype == "fp16" || dtype == "bf16"),
                         "--override: wanted GLOB=P with P one of fp32, fp16, bf16, got '{}'", o);
  }
}

}  // namespace binade::examples
