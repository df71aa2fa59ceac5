#pragma once

#include "binade/cuda/device/cudnn_graph.h"

namespace binade::cuda {

/// Returns a description of an H100 in cuDNN's format, for which engines can be chosen without a GPU. Null if this
/// cuDNN accepts no descriptions.
const Descriptor* described_device();

/// Returns engine `index` of a graph on this device, finalized, with its numerical notes.
Descriptor described_engine(const OperationGraph& graph, std::int64_t index);
std::vector<cudnnBackendNumericalNote_t> notes_of(const Descriptor& engine);

}  // namespace binade::cuda
