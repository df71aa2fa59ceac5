#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace binade::examples {

/// The training step to time.
struct Workload {
  std::string name{}, precision{};
  std::int64_t parameters = 0;
  std::function<void()> step{};               ///< submits one training step
  std::function<double()> loss{};             ///< returns the loss of the last step, after waiting for it
  std::function<void(bool)> set_telemetry{};  ///< switches the telemetry of the steps on or off
};

/// Times steps. If `interactive`, serves the protocol of bench/run.py on stdin and stdout (on a GPU with
/// `device_peak_mib`), so that a harness can interleave steps of several processes; otherwise times `steps` steps after
/// two warm-up steps and prints one JSON object. Returns the exit code.
int serve_steps(const Workload& workload, bool interactive, int steps);

/// Measures the cost of telemetry with `pairs` of steps, one with and one without telemetry, in random order. Prints
/// the medians, and the median of the pairs' ratios with its 95 % interval (of order statistics). Returns the exit
/// code.
int measure_overhead(const Workload& workload, int pairs);

}  // namespace binade::examples
