#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "binade/amp/step/trainer.h"
#include "examples/common/settings.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// Settings of a `bench` command.
struct BenchSettings {
  TrainSettings train{};
  std::string workload{};
  bool interactive = false;   ///< true: serves the protocol of bench/run.py on stdin and stdout
  bool record = true;         ///< true: runs steps as captured graphs on a GPU
  std::int64_t batch = 0;     ///< samples per step; 0: the workload's default
  std::int64_t overhead = 0;  ///< number of pairs of steps that measure the cost of telemetry; 0: times steps instead
  std::int64_t verification = 0;  ///< number of pairs of steps that measure the cost of a verified step
  std::int64_t steps = 10;        ///< number of steps to time if not interactive
};

/// Adds the settings of `bench`; the first of `workloads` is the default.
void add_bench_settings(Settings& table, BenchSettings& s, const std::vector<std::string>& workloads);

/// Times `step`, which runs one of the trainer's steps. Returns the exit code. If `interactive`, serves the protocol of
/// bench/run.py (on a GPU the answers contain `device_peak_mib`), so that a script can interleave steps of several
/// processes; otherwise times `steps` steps after two warm-up steps and prints one JSON object. With `overhead`,
/// measures the cost of telemetry instead, with pairs of steps, one with and one without telemetry, in random order:
/// prints the medians, and the median of the pairs' ratios with its 95 % confidence interval. With
/// `verification`, does the same with and without verification (TrainerOptions::verify_every), and also prints `every`:
/// the smallest interval of verified steps that costs at most 0.5 % of the time.
int run_bench(const BenchSettings& s, amp::Trainer& trainer, std::int64_t parameters, std::function<void()> step);

}  // namespace binade::examples
