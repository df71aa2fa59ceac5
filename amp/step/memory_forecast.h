#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "binade/amp/step/step_result.h"
#include "binade/core/device.h"
#include "binade/core/memory_plan.h"

namespace binade::amp {

class AttemptRunner;
struct OngoingStep;

/// Estimates the memory of a step by extrapolation from runs of it with one, two or three samples, which are not
/// committed. Returns std::nullopt if samples cannot be left out of the batch, or if a run fails. Throws
/// OutOfMemoryError.
std::optional<MemoryForecast> forecast_memory(AttemptRunner& runner, const OngoingStep& step, Device device,
                                              bool accumulates);

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

/// Returns "this step needs about 12.3 GB of 139 GB".
std::string to_string(const MemoryForecast& forecast, double available);
/// Throws OutOfMemoryError, with the number of rows that fit, if the step needs more than `available` bytes.
void check_fits(const MemoryForecast& forecast, double available, Device device);

}  // namespace binade::amp
