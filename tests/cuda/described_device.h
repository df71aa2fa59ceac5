#pragma once

#include "binade/cuda/device/cudnn_graph.h"

namespace binade::cuda {

/// A GPU (an H100) in words, as cuDNN writes them down: engines can be chosen for it where there is none. Null where
/// this cuDNN takes no description.
const Descriptor* described_device();

/// Engine `index` of a graph on it, finalized, and what cuDNN notes of its numbers.
Descriptor described_engine(const OperationGraph& graph, std::int64_t index);
std::vector<cudnnBackendNumericalNote_t> notes_of(const Descriptor& engine);

}  // namespace binade::cuda
