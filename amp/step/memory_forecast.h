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

/// The sums of gradients that a step with leaves keeps besides those of the micro-batch in progress.
struct TreeMemory {
  int leaves = 1;
  int rank = 0, ranks = 1;
  std::int64_t parameters = 0;  ///< number of elements
};
/// Returns the most bytes that the sums of a rank need at one time (amp/ranks/gradient_tree.h); 0 for one leaf.
double tree_bytes(const TreeMemory& tree);

/// Estimates the memory of a step by extrapolation from runs of it with one, two or three samples, which are not
/// committed, plus that of the tree of gradients. Over several ranks each estimates its own, without the others.
/// Returns std::nullopt if samples cannot be left out of the batch, or if a run fails. Throws OutOfMemoryError.
/// `accumulate`: micro-batches of a step.
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
/// Returns the share of it that this process has, if several ranks run on this machine.
double share_of_memory(Device device);

/// Returns "this step needs about 12.3 GB of 139 GB".
std::string to_string(const MemoryForecast& forecast, double available);
/// Throws OutOfMemoryError, with the number of rows that fit, if the step needs more than `available` bytes.
void check_fits(const MemoryForecast& forecast, double available, Device device);

}  // namespace binade::amp
