#include "examples/common/bench_settings.h"

#include <utility>

namespace binade::examples {

void add_bench_settings(Settings& table, BenchSettings& s, const std::vector<std::string>& workloads) {
  s.workload = workloads.front();
  table.add("workload", &s.workload, "model and batch", {.choices = workloads});
  table.add("batch", &s.batch, "samples a step (0: the workload's)", {.low = 0, .high = 1e6});
  table.add("precision", &s.train.precision, "dtype in which products compute",
            {.choices = {"fp32", "tf32", "fp16", "bf16", "fp8", "pure-fp16", "pure-bf16"}});
  table.add("device", &s.train.device, "device to run on", {.value = "auto|cpu|cuda[:N]"});
  table.add("record", &s.record, "on a GPU: run steps as captured graphs");
  table.add("deterministic", &s.train.deterministic, "the same bits every time");
  table.add("plans", &s.train.plans,
            "on a GPU: choose library algorithms by time (once per machine), or take the first",
            {.choices = {"timed", "first"}});
  table.add("threads", &s.train.threads, "CPU threads (0: all)", {.low = 0, .high = 1024});
  table.add("steps", &s.steps, "steps timed", {.low = 1, .high = 1e6});
  table.add("overhead", &s.overhead, "pairs of steps with and without telemetry, to measure its cost",
            {.low = 0, .high = 1e6});
  table.add("interactive", &s.interactive, "wait for 'step N' on stdin", {.on_resume = OnResume::kNotASetting});
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
                          .set_telemetry = [&trainer](bool on) { trainer.set_telemetry(on); }};
  if (s.overhead > 0) return measure_overhead(workload, static_cast<int>(s.overhead));
  return serve_steps(workload, s.interactive, static_cast<int>(s.steps));
}

}  // namespace binade::examples
