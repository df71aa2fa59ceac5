#include "examples/common/bench.h"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iostream>
#include <optional>
#include <string_view>
#include <utility>

#include "binade/core/backend.h"
#include "binade/core/error.h"
#include "binade/core/parallel.h"
#include "binade/core/random.h"
#include "binade/core/runtime.h"
#include "binade/core/version.h"
#include "binade/io/records/json_lines.h"
#include "binade/io/terminal/console.h"

namespace binade::examples {
namespace {

constexpr int kWarmUp = 2;

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

/// Times the steps of a trainer.
class Timer {
 public:
  Timer(amp::Trainer& trainer, std::function<void()> step) : trainer_(trainer), step_(std::move(step)) {}

  /// Runs `count` steps and returns their mean time; the device is idle before the first and after the last.
  double milliseconds(int count = 1) {
    Backend& device = backend_of(Runtime::current_device());
    device.synchronize({});
    const auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
      step_();
      if (!first_loss_) first_loss_ = wait_for_loss();
    }
    wait_for_loss();
    device.synchronize({});
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - before).count() / count;
  }
  io::JsonObject answer(int steps, double ms) const {
    io::JsonObject answer;
    answer.add("steps", steps)
        .add("ms", ms)
        .add("loss", loss_)
        .add("first_loss", first_loss_.value_or(loss_))
        .add("peak_mib", peak_mib());
    if (const Device device = Runtime::current_device(); device != Device::cpu())
      answer.add("device_peak_mib", static_cast<double>(backend_of(device).bytes_peak()) / (1 << 20));
    return answer;
  }

 private:
  /// Waits for the last step; returns its loss.
  double wait_for_loss() {
    trainer_.synchronize();
    for (const StepStats& one : trainer_.finished()) loss_ = one.loss;
    return loss_;
  }

  amp::Trainer& trainer_;
  std::function<void()> step_;
  double loss_ = 0;
  std::optional<double> first_loss_;
};

void say(const io::JsonObject& line) { io::print(line.text() + "\n"); }

/// Returns N of a request "step N" of the protocol of bench/run.py, or std::nullopt for another line.
std::optional<int> requested(std::string_view line) {
  constexpr std::string_view kWord = "step ";
  int count = 0;
  if (!line.starts_with(kWord)) return std::nullopt;
  const auto [end, error] = std::from_chars(line.data() + kWord.size(), line.data() + line.size(), count);
  if (error != std::errc{} || count < 1) return std::nullopt;
  return count;
}

int serve_steps(const BenchSettings& s, Timer& timer, std::int64_t parameters) {
  io::JsonObject about;
  about.add("ready", true)
      .add("backend", "binade " + std::string(version()))
      .add("workload", s.workload)
      .add("precision", s.train.precision)
      .add("device", Runtime::current_device().to_string())
      .add("threads", num_threads())
      .add("parameters", parameters);
  if (s.interactive) {
    say(about);
    for (std::string line; std::getline(std::cin, line) && line != "quit";) {
      const std::optional<int> count = requested(line);
      check<ArgumentError>(count.has_value(), "bench: wanted 'step N' or 'quit', got '{}'", line);
      const double ms = timer.milliseconds(*count);
      say(timer.answer(*count, ms));
    }
    return 0;
  }
  for (int i = 0; i < kWarmUp; ++i) timer.milliseconds();
  std::vector<double> times;
  for (int i = 0; i < s.steps; ++i) times.push_back(timer.milliseconds());
  std::ranges::sort(times);
  say(timer.answer(static_cast<int>(s.steps), times[times.size() / 2])
          .add("ms_min", times.front())
          .add("ms_max", times.back())
          .add("workload", s.workload)
          .add("precision", s.train.precision));
  return 0;
}

/// Times pairs of steps, one after `set(true)` and one after `set(false)`, in random order.
io::JsonObject measure_pairs(const BenchSettings& s, Timer& timer, int pairs, const std::function<void(bool)>& set,
                             double& ratio) {
  for (int i = 0; i < kWarmUp; ++i) timer.milliseconds();
  const RandomStream order{1, RngPurpose::kData, 0, 0, 7};
  std::vector<double> on, off, ratios;
  for (int pair = 0; pair < pairs; ++pair) {
    const bool on_first = order.uniform(static_cast<std::uint64_t>(pair)) < 0.5;
    for (const bool watched : {on_first, !on_first}) {
      set(watched);
      (watched ? on : off).push_back(timer.milliseconds());
    }
    ratios.push_back(on.back() / off.back());
  }
  for (std::vector<double>* values : {&on, &off, &ratios}) std::ranges::sort(*values);
  const auto half = static_cast<std::size_t>(pairs / 2);
  // Half of the median's 95 % confidence interval, in positions of the sorted values: 1.96 sqrt(pairs / 4).
  const auto spread = static_cast<std::size_t>(0.98 * std::sqrt(static_cast<double>(pairs)));
  ratio = ratios[half];
  return io::JsonObject()
      .add("workload", s.workload)
      .add("precision", s.train.precision)
      .add("pairs", pairs)
      .add("on_ms", on[half])
      .add("off_ms", off[half])
      .add("ratio", ratio)
      .add("low", ratios[half - std::min(half, spread)])
      .add("high", ratios[std::min(ratios.size() - 1, half + spread)]);
}

int measure_overhead(const BenchSettings& s, Timer& timer, amp::Trainer& trainer) {
  double ratio = 0;
  say(measure_pairs(
      s, timer, static_cast<int>(s.overhead), [&](bool on) { trainer.set_telemetry(on); }, ratio));
  return 0;
}

int measure_verification(const BenchSettings& s, Timer& timer, amp::Trainer& trainer) {
  constexpr double kShare = 0.005;
  double ratio = 0;
  io::JsonObject answer = measure_pairs(
      s, timer, static_cast<int>(s.verification), [&](bool on) { trainer.set_verify_every(on ? 1 : 0); }, ratio);
  say(answer.add("every", static_cast<std::int64_t>(std::ceil(std::max(0.0, ratio - 1) / kShare))));
  return 0;
}

}  // namespace

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
  table.add("verification", &s.verification,
            "pairs of steps with and without verification, to measure its cost (docs/silent-corruption.md)",
            {.low = 0, .high = 1e6});
  table.add("interactive", &s.interactive, "wait for 'step N' on stdin", {.on_resume = OnResume::kNotASetting});
}

int run_bench(const BenchSettings& s, amp::Trainer& trainer, std::int64_t parameters, std::function<void()> step) {
  Timer timer(trainer, std::move(step));
  if (s.verification > 0) return measure_verification(s, timer, trainer);
  return s.overhead > 0 ? measure_overhead(s, timer, trainer) : serve_steps(s, timer, parameters);
}

}  // namespace binade::examples
