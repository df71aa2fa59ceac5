#pragma once

#include <span>
#include <vector>

#include "binade/amp/ranks/shared_buffers.h"
#include "binade/core/communicator.h"
#include "binade/nn/module.h"
#include "binade/nn/statistics_log.h"

namespace binade::amp {

/// Encodes, for the other ranks, the batch-norm statistics of this rank's micro-batches and its shared buffers
/// (shared_buffers.h). Throws ArgumentError if forward has changed any other buffer: its value may depend on earlier
/// micro-batches, which another rank computes. `start`: start_values() before the phase.
Bytes encode_statistics(nn::Module& model, const StartValues& start, const nn::StatisticsLog& log);

/// Sets the running statistics of the model's batch norms to their values before the phase, updates them with the
/// micro-batches of all ranks in order, and combines the shared buffers. `all`: encode_statistics() of every rank.
void replay_statistics(nn::Module& model, const StartValues& start, const std::vector<std::span<const std::byte>>& all);

}  // namespace binade::amp
