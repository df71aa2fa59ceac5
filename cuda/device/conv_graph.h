#pragma once

#include "binade/cuda/device/conv_plan.h"
#include "binade/cuda/device/cudnn_graph.h"

/// Convolutions in cuDNN's graph interface: one operation, or an operation and a pointwise one behind it.
namespace binade::cuda {

/// What the tensors of a convolution are called in its graph.
enum ConvTensor : std::int64_t { kTensorX = 1, kTensorW, kTensorY, kTensorBias, kTensorSums };

/// The operation graph of a key. Throws Failure where cuDNN knows no such graph. REQUIRES kThroughFloat with a bias.
OperationGraph conv_graph(const ConvKey& key, ConvForm form);

/// The engines of all forms of a key, as proposed_engines names them.
std::vector<EngineChoice> propose_conv(const ConvKey& key, const EngineTarget& target);
/// The plan of an earlier choice, as restore_engine makes it.
std::optional<EnginePlan> restore_conv_plan(const ConvKey& key, const EngineChoice& choice, const EngineTarget& target);

}  // namespace binade::cuda
