#pragma once

#include "binade/cuda/device/attention_plan.h"
#include "binade/cuda/device/cudnn_graph.h"

/// Attention in cuDNN's graph interface. cuDNN 9.15 … 9.20 has no operation for the whole of it: its engines know
/// flash attention by the operations that it consists of, in the order and with the layouts of this file.
namespace binade::cuda {

/// What the tensors of an attention are called in its graph.
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
  kAttentionDelta,  ///< f32 (batch, heads, queries): work memory of a backward pass, the sums of gy y
  // By value:
  kAttentionScale,       ///< f32
  kAttentionHidden,      ///< f32: the logit of a key that a query does not see
  kAttentionKeyCount,    ///< i32: keys
  kAttentionQueryCount,  ///< i32: queries
  kAttentionOne,         ///< f32: 1
  kAttentionInner        ///< the first of those that never reach memory
};

/// Whether a graph has tensor `id`.
bool has_tensor(const AttentionKey& key, AttentionTensor id);

/// The operation graph of a key. f32 logits, softmax and sums; probabilities and the gradients of logits are rounded to
/// the key's dtype before they are multiplied on. The log-sum-exp is AttentionForward's. A backward pass writes gq as
/// one product, not as sums that blocks add up in the order in which they come: the same bits every time. Throws
/// Failure where cuDNN knows no such graph.
OperationGraph attention_graph(const AttentionKey& key);

std::vector<EngineChoice> propose_attention(const AttentionKey& key, const EngineTarget& target);
std::optional<EnginePlan> restore_attention_plan(const AttentionKey& key, const EngineChoice& choice,
                                                 const EngineTarget& target);

}  // namespace binade::cuda
