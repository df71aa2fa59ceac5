#pragma once

#include "binade/cuda/device/attention_plan.h"
#include "binade/cuda/device/cudnn_graph.h"

/// Attention in cuDNN's graph interface. cuDNN 9.15 … 9.20 has no single operation for it: its engines recognize flash
/// attention by its operations, in the order and with the layouts of this file.
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
  kAttentionScale,       ///< f32
  kAttentionHidden,      ///< f32: the logit of a hidden key
  kAttentionKeyCount,    ///< i32: keys
  kAttentionQueryCount,  ///< i32: queries
  kAttentionOne,         ///< f32: 1
  kAttentionInner        ///< first id of the tensors that never reach memory
};

/// Returns true if the graph of `key` has tensor `id`.
bool has_tensor(const AttentionKey& key, AttentionTensor id);

/// Returns the operation graph of a key, for the device of `handle` (null: a described device). Logits, softmax and
/// sums are f32; probabilities and gradients of logits are rounded to the key's dtype before the next product. The
/// log-sum-exp is that of AttentionForward. Backward writes gq as one product, not as sums that blocks add as they
/// finish: the same bits every time. Throws Failure if cuDNN does not support the graph.
OperationGraph attention_graph(const AttentionKey& key, cudnnHandle_t handle = nullptr);

std::vector<EngineChoice> propose_attention(const AttentionKey& key, const EngineTarget& target);
std::optional<EnginePlan> restore_attention_plan(const AttentionKey& key, const EngineChoice& choice,
                                                 const EngineTarget& target);

}  // namespace binade::cuda
