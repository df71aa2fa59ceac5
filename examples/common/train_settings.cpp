#include "examples/common/train_settings.h"

#include <algorithm>
#include <charconv>

#include "binade/core/error.h"
#include "binade/optim/schedule.h"
#include "examples/common/optimizers.h"

namespace binade::examples {
namespace {

using enum OnResume;

constexpr double kCount = 1e15;  // largest count that a flag accepts; a double holds it exactly

void add_data(Settings& t, TrainSettings& s) {
  t.add("data", &s.data, "training data (default: embedded data)", {.on_resume = kByContent, .value = "PATH"});
  t.add("val-data", &s.val_data, "separate held-out data", {.on_resume = kByContent, .value = "PATH"});
  t.add("val-fraction", &s.val_fraction, "share held out of --data, rounded down, at least 1",
        {.on_resume = kFixed, .low = 1e-9, .high = 0.9});
  t.add("run", &s.run, "run folder (a new one under runs/)", {.on_resume = kByContent, .value = "DIR"});
  t.add("resume", &s.resume, "continue from the run's newest verified checkpoint; auto: begin if there is none",
        {.on_resume = kNotASetting, .choices = {"must", "auto"}, .bare = "must"});
  t.add("supervise", &s.supervise, "run in a child process that is restarted when it dies",
        {.on_resume = kNotASetting});
  t.add("ranks", &s.ranks,
        "processes that share the micro-batches of a step, started by mpirun; results do not depend on it",
        {.on_resume = kNotASetting, .low = 1, .high = 1024});
  t.add("min-ranks", &s.min_ranks,
        "with --supervise: after each second death without a new checkpoint go on with one rank fewer, down to this "
        "number (0: always --ranks)",
        {.on_resume = kNotASetting, .low = 0, .high = 1024});
  t.add("rank-deadline", &s.rank_deadline,
        "seconds that a rank waits for another one before it gives up (0: BINADE_RANK_DEADLINE, else 300)",
        {.on_resume = kNotASetting, .low = 0, .high = 1e8});
  t.add("config", &s.config, "JSON file with settings; flags take precedence",
        {.on_resume = kNotASetting, .value = "FILE"});
  t.add("init-from", &s.init_from, "start from the weights of a checkpoint or safetensors file",
        {.on_resume = kFixed, .value = "FILE"});
}

void add_run(Settings& t, TrainSettings& s) {
  t.add("steps", &s.steps, "committed updates of the whole run", {.on_resume = kMayChange, .low = 1, .high = kCount});
  t.add("batch", &s.batch, "samples per micro-batch", {.low = 1, .high = 1 << 20});
  t.add("accumulate", &s.accumulate, "micro-batches per update", {.low = 1, .high = 1 << 20});
  t.add("leaves", &s.leaves,
        "parts of a step whose gradients are added in a tree (0: as the checkpoint, else 1, or --accumulate with "
        "--ranks)",
        {.on_resume = kMayChange, .low = 0, .high = 1 << 16});
  t.add("seed", &s.seed, "seed of all random numbers", {.on_resume = kFixed, .low = 0, .high = kCount});
  t.add("threads", &s.threads, "CPU threads (0: all); results do not depend on it",
        {.on_resume = kMayChange, .low = 0, .high = 1024});
  t.add("deterministic", &s.deterministic, "the same bits every time");
  t.add("plans", &s.plans, "on a GPU: choose library algorithms by time (once per machine), or take the first",
        {.on_resume = kMayChange, .choices = {"timed", "first"}});
  t.add("record", &s.record, "on a GPU: run ordinary steps as captured graphs", {.on_resume = kMayChange});
  t.add("device", &s.device, "device to run on", {.on_resume = kMayChange, .value = "auto|cpu|cuda[:N]"});
  t.add("checkpoint-every", &s.checkpoint_every, "updates between checkpoints (0: by --checkpoint-minutes alone)",
        {.on_resume = kMayChange, .low = 0, .high = kCount});
  t.add("checkpoint-minutes", &s.checkpoint_minutes,
        "longest time between checkpoints, the first after the first update (0: by steps alone)",
        {.on_resume = kMayChange, .low = 0, .high = 1e6});
  t.add("save-failure", &s.save_failure, "if a checkpoint cannot be written: continue and try again later, or stop",
        {.on_resume = kMayChange, .choices = {"continue", "stop"}});
  t.add("keep", &s.keep, "newest checkpoints to keep, besides the best, the last good one and the next to become good",
        {.on_resume = kMayChange, .low = 1, .high = 10000});
  t.add("eval-every", &s.eval_every, "updates between evaluations (0: at the end)",
        {.on_resume = kMayChange, .low = 0, .high = kCount});
  t.add("log-every", &s.log_every, "updates between lines on the terminal",
        {.on_resume = kMayChange, .low = 1, .high = kCount});
  t.add("state-hash", &s.state_hash, "record the state's SHA-256 before and after every attempt",
        {.on_resume = kMayChange});
  t.add("forecast-memory", &s.forecast_memory,
        "predict the memory of a step before the first one, and stop if it does not fit", {.on_resume = kMayChange});
  t.add("verify-every", &s.verify_every,
        "every so many updates compute a micro-batch twice and compare all bits, to find silent corruption (0: never)",
        {.on_resume = kMayChange, .low = 0, .high = kCount});
  t.add("on-nan", &s.on_nan, "after an incident: apply the cheapest remedy that works, skip the batch, or stop",
        {.choices = {"ladder", "skip", "stop"}});
  t.add("inject", &s.inject, "inject a fault: KIND@step=K[,key=value...], see docs/incidents.md",
        {.on_resume = kMayChange, .value = "SPEC"});
}

void add_precision(Settings& t, TrainSettings& s) {
  t.add("precision", &s.precision,
        "dtype in which products compute (default: bf16 if the hardware supports it, else fp32)",
        {.choices = {"fp32", "tf32", "fp16", "bf16", "fp8", "pure-fp16", "pure-bf16"}});
  t.add("override", &s.overrides, "GLOB=P: module path or op to fp32, fp16 or bf16; the last match wins",
        {.value = "GLOB=P"});
  t.add("loss-scale", &s.loss_scale,
        "factor that keeps small gradients from vanishing; auto: dynamic in fp16, else off",
        {.value = "auto|dynamic|off|X"});
  t.add("init-scale", &s.init_scale, "first scale of --loss-scale dynamic; auto: from a measured backward",
        {.value = "X|auto"});
}

void add_optimizer(Settings& t, TrainSettings& s) {
  t.add("optimizer", &s.optimizer, "update rule of the weights",
        {.on_resume = kIncompatible, .choices = optimizer_names()});
  t.add("lr", &s.lr, "peak learning rate", {.low = 0, .high = 1e6});
  t.add("min-lr", &s.min_lr, "last learning rate of the schedule", {.low = 0, .high = 1e6});
  t.add("warmup", &s.warmup, "updates of linear warm-up", {.low = 0, .high = kCount});
  t.add("schedule", &s.schedule, "learning rate after the warm-up",
        {.choices = {optim::schedule_names().begin(), optim::schedule_names().end()}});
  t.add("schedule-steps", &s.schedule_steps,
        "update at which the schedule reaches --min-lr (default: --steps of the first start)",
        {.low = 0, .high = kCount});
  t.add("beta1", &s.beta1, "Adam and its variants, Lion, LAMB", {.low = 0, .high = 1});
  t.add("beta2", &s.beta2, "Adam and its variants, Lion, LAMB", {.low = 0, .high = 1});
  t.add("eps", &s.eps, "Adam and its variants, RMSprop, Adagrad", {.low = 0, .high = 1});
  t.add("momentum", &s.momentum, "SGD", {.low = 0, .high = 1});
  t.add("weight-decay", &s.weight_decay, "weight decay of matrices and filters", {.low = 0, .high = 1e6});
  t.add("clip", &s.clip, "gradient clipping bound (0: none)", {.low = 0, .high = 1e9});
  t.add("clip-mode", &s.clip_mode, "quantity that --clip bounds", {.choices = {"norm", "value", "adaptive"}});
  t.add("ema", &s.ema, "decay of averaged weights (0: none)", {.low = 0, .high = 1});
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
  check<ArgumentError>(
      !is_schedule_free(s) || s.schedule == "constant",
      "--optimizer schedule-free: wanted --schedule constant, got {}; it averages the weights in place of "
      "a schedule",
      s.schedule);
  check<ArgumentError>(!is_schedule_free(s) || s.ema == 0,
                       "--optimizer schedule-free: wanted no --ema, got {}; it averages the weights itself", s.ema);
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
