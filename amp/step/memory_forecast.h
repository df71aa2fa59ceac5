#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "binade/amp/step/step_result.h"
#include "binade/core/device.h"
#include "binade/core/memory_plan.h"

namespace binade::amp {

class AttemptRunner;
class Transaction;
struct OngoingStep;

/// The sizes that determine how much memory the sums of gradients of a step with leaves need (TrainerOptions::leaves).
struct TreeMemory {
  int leaves = 1;
  int rank = 0, ranks = 1;
  std::int64_t parameters = 0;  ///< number of elements of all parameters
};
/// Returns the peak size, in bytes, of these sums on one rank (amp/ranks/gradient_tree.h); 0 for one leaf.
double tree_bytes(const TreeMemory& tree);

/// Estimates the memory of a step: extrapolates from uncommitted runs with one, two or three samples, and adds
/// tree_bytes(). With several ranks, each rank estimates its own memory without communication. Returns std::nullopt if
/// samples cannot be left out of the batch, or if a run fails. Throws OutOfMemoryError if memory runs out in such a
/// run. `accumulate`: micro-batches of a step.
std::optional<MemoryForecast> forecast_memory(AttemptRunner& runner, const OngoingStep& step,
                                              const Transaction& transaction, std::int64_t accumulate);

/// The allocations of a run with `rows` rows.
struct TracedRows {
  std::int64_t rows = 0;
  MemoryTrace trace{};
};
/// Extrapolates the peak memory with `rows` rows from runs with fewer rows. If both runs allocated the same blocks in
/// the same order, as in models whose ops do not depend on the data, extrapolates each block separately, because the op
/// at the peak may change with the number of rows. Otherwise extrapolates the peaks.
double peak_with(std::int64_t rows, const TracedRows& few, const TracedRows& more);

/// Returns the total memory of a GPU. For the CPU: the machine's memory, or the limit of the control group if it is
/// lower.
double memory_of(Device device);
/// Returns memory_of(device) divided by the number of ranks on this machine that share the device.
double share_of_memory(Device device);

/// Returns "this step needs about 12.3 GB of 139 GB".
std::string to_string(const MemoryForecast& forecast, double available);
/// Throws OutOfMemoryError, with the number of rows that fit, if the step needs more than `available` bytes.
void check_fits(const MemoryForecast& forecast, double available, Device device);

}  // namespace binade::amp
