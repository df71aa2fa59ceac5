#pragma once

#include <span>
#include <vector>

#include "binade/core/communicator.h"
#include "binade/nn/module.h"
#include "binade/nn/statistics_log.h"

namespace binade::amp {

/// Returns the statistics of a rank's micro-batches, for the other ranks. Throws ArgumentError for a buffer that
/// forward has changed and that is no running statistic of a batch norm: what it becomes may depend on the
/// micro-batches before, which another rank computes.
Bytes encode_statistics(nn::Module& model, const nn::StatisticsLog& log);

/// Moves the running statistics of the model's batch norms, from their committed values, by the micro-batches of all
/// ranks in order. `all`: encode_statistics() of every rank.
void replay_statistics(nn::Module& model, const std::vector<std::span<const std::byte>>& all);

}  // namespace binade::amp
