#include "examples/common/bench_settings.h"

#include <utility>

namespace binade::examples {

void add_bench_settings(Settings& table, BenchSettings& s, const std::vector<std::string>& workloads) {
  s.workload = workloads.front();
  table.add({.name = "workload", .target = &s.workload, .help = "model and batch", .choices = workloads});
  table.add({.name = "batch", .target = &s.batch, .help = "samples a step (0: the workload's)", .low = 0, .high = 1e6});
  table.add({.name = "precision",
             .target = &s.train.precision,
             .help = "what products compute in",
             .choices = {"fp32", "tf32", "fp16", "bf16", "fp8", "pure-fp16", "pure-bf16"}});
  table.add({.name = "device", .target = &s.train.device, .help = "where it runs", .value = "auto|cpu|cuda[:N]"});
  table.add({.name = "record", .target = &s.record, .help = "on a GPU: steps as one recorded piece of work each"});
  table.add({.name = "deterministic", .target = &s.train.deterministic, .help = "the same bits every time"});
  table.add({.name = "plans",
             .target = &s.train.plans,
             .help = "on a GPU: libraries' algorithms, by time (once a machine) or the first they name",
             .choices = {"timed", "first"}});
  table.add({.name = "threads", .target = &s.train.threads, .help = "CPU threads (0: all)", .low = 0, .high = 1024});
  table.add({.name = "steps", .target = &s.steps, .help = "steps timed", .low = 1, .high = 1e6});
  table.add({.name = "overhead",
             .target = &s.overhead,
             .help = "pairs of steps, with and without telemetry: what it costs",
             .low = 0,
             .high = 1e6});
  table.add({.name = "interactive",
             .target = &s.interactive,
             .help = "wait for 'step N' on stdin",
             .on_resume = OnResume::kNotASetting});
}

int run_bench(const BenchSettings& s, amp::Trainer& trainer, std::int64_t parameters, std::function<void()> step) {
  const auto loss = [&trainer, last = 0.0]() mutable {
    trainer.synchronize();
    for (const StepStats& one : trainer.finished()) last = one.loss;
    return last;
  };
  const Workload workload{.name = s.workload,
                          .precision = s.train.precision,
                          .parameters = parameters,
                          .step = std::move(step),
                          .loss = loss,
                          .watch = [&trainer](bool on) { trainer.set_telemetry(on); }};
  if (s.overhead > 0) return measure_overhead(workload, static_cast<int>(s.overhead));
  return serve_steps(workload, s.interactive, static_cast<int>(s.steps));
}

}  // namespace binade::examples
