#pragma once

#include <span>
#include <vector>

#include "binade/amp/ranks/shared_buffers.h"
#include "binade/core/communicator.h"
#include "binade/nn/module.h"
#include "binade/nn/statistics_log.h"

namespace binade::amp {

/// Returns the statistics of a rank's micro-batches and what it has written into shared buffers (shared_buffers.h), for
/// the other ranks. Throws ArgumentError for another buffer that forward has changed: what it becomes may depend on the
/// micro-batches before, which another rank computes. `start`: start_values() before the phase.
Bytes encode_statistics(nn::Module& model, const StartValues& start, const nn::StatisticsLog& log);

/// Moves the running statistics of the model's batch norms, from their values before the phase, by the micro-batches of
/// all ranks in order, and combines the shared buffers. `all`: encode_statistics() of every rank.
void replay_statistics(nn::Module& model, const StartValues& start, const std::vector<std::span<const std::byte>>& all);

}  // namespace binade::amp
