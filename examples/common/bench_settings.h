#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "binade/amp/step/trainer.h"
#include "examples/common/settings.h"
#include "examples/common/step_server.h"
#include "examples/common/train_settings.h"

namespace binade::examples {

/// Settings of a `bench` command.
struct BenchSettings {
  TrainSettings train{};
  std::string workload{};
  bool interactive = false, record = true;
  std::int64_t batch = 0;     ///< samples per step; 0: the workload's default
  std::int64_t overhead = 0;  ///< pairs of steps for measure_overhead(); 0: times steps instead
  std::int64_t steps = 10;
};

/// Adds the settings of `bench`; the first of `workloads` is the default.
void add_bench_settings(Settings& table, BenchSettings& s, const std::vector<std::string>& workloads);

/// Times `step`, which makes one of the trainer's steps. Returns the exit code.
int run_bench(const BenchSettings& s, amp::Trainer& trainer, std::int64_t parameters, std::function<void()> step);

}  // namespace binade::examples
