#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace binade::examples {

/// What is being timed.
struct Workload {
  std::string name{}, precision{};
  std::int64_t parameters = 0;
  std::function<void()> step{};       ///< sends one training step
  std::function<double()> loss{};     ///< loss of the last step; waits for it
  std::function<void(bool)> watch{};  ///< switches the telemetry of the steps on or off
};

/// Runs steps on request, so that a harness can interleave them with another process's: speaks the protocol of
/// bench/run.py on stdin and stdout (see there; on a GPU `device_peak_mib` too), or, when not `interactive`, times
/// `steps` of them after two to warm up and prints one JSON object. Returns the exit code.
int serve_steps(const Workload& workload, bool interactive, int steps);

/// What watching costs: `pairs` of steps, one watched and one not, the order drawn anew for each pair. Prints the
/// medians, and the median of the pairs' ratios with its 95 % interval (of order statistics). Returns the exit code.
int measure_overhead(const Workload& workload, int pairs);

}  // namespace binade::examples
