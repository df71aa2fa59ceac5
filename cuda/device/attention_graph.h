#pragma once

#include "binade/cuda/device/attention_plan.h"
#include "binade/cuda/device/cudnn_graph.h"

/// Attention in cuDNN's graph interface. cuDNN 9.15 … 9.20 has no single operation for the attention that Binade needs.
/// Its engines recognize flash attention as a sequence of operations, in the order and with the layouts of this file.
namespace binade::cuda {

/// Ids of the tensors in an attention's graph.
enum AttentionTensor : std::int64_t {
  kAttentionQ = 1,
  kAttentionK,
  kAttentionV,
  kAttentionY,
  kAttentionLse,
  kAttentionGy,
  kAttentionGq,
  kAttentionGk,
  kAttentionGv,
  kAttentionDelta,  ///< f32 (batch, heads, queries): workspace of backward, the sums of gy y
  // Tensors that are passed by value:
  kAttentionScale,       ///< f32: factor of the logits
  kAttentionHidden,      ///< f32: the logit of a hidden key
  kAttentionKeyCount,    ///< i32: number of keys
  kAttentionQueryCount,  ///< i32: number of queries
  kAttentionOne,         ///< f32: the constant 1
  kAttentionInner        ///< first id of the tensors that never reach memory
};

/// Returns true if the graph of `key` has tensor `id`.
bool has_tensor(const AttentionKey& key, AttentionTensor id);

/// Returns the operation graph of a key, for the device of `handle`, or for a device that exists only as a description
/// if `handle` is null. Logits, softmax and sums are f32; probabilities and gradients of logits are rounded to the
/// key's dtype before the next product. The log-sum-exp is that of AttentionForward. Backward writes gq as one product,
/// so that it has the same bits every time; sums that blocks add in the order in which they finish would not. Throws
/// Failure if cuDNN does not support the graph.
OperationGraph attention_graph(const AttentionKey& key, cudnnHandle_t handle = nullptr);

/// Returns the engines for a key, as proposed_engines() does.
std::vector<EngineChoice> propose_attention_engines(const AttentionKey& key, const EngineTarget& target);
/// Returns the plan of an earlier choice, as restore_engine() does.
std::optional<EnginePlan> restore_attention_plan(const AttentionKey& key, const EngineChoice& choice,
                                                 const EngineTarget& target);

}  // namespace binade::cuda
