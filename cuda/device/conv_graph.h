#pragma once

#include "binade/cuda/device/conv_plan.h"
#include "binade/cuda/device/cudnn_graph.h"

/// Convolutions in cuDNN's graph interface. A graph is one convolution, or a convolution followed by a pointwise
/// operation.
namespace binade::cuda {

/// Ids of the tensors in a convolution's graph.
enum ConvTensor : std::int64_t { kTensorX = 1, kTensorW, kTensorY, kTensorBias, kTensorSums };

/// Returns the operation graph of a key, for the device of `handle`, or for a device that exists only as a description
/// if `handle` is null. Throws Failure if cuDNN does not support the graph. REQUIRES kThroughFloat if the key has a
/// bias.
OperationGraph conv_graph(const ConvKey& key, ConvForm form, cudnnHandle_t handle = nullptr);

/// Returns the engines for all forms of a key, as proposed_engines() does.
std::vector<EngineChoice> propose_conv(const ConvKey& key, const EngineTarget& target);
/// Returns the plan of an earlier choice, as restore_engine() does.
std::optional<EnginePlan> restore_conv_plan(const ConvKey& key, const EngineChoice& choice, const EngineTarget& target);

}  // namespace binade::cuda
