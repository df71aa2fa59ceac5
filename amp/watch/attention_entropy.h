#pragma once

#include <optional>
#include <span>

#include "binade/amp/watch/probe_buffer.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// Returns the entropy of softmax(logits) divided by the logarithm of the number of keys: 1 if all keys have equal
/// weight, 0 if one key has all of it. Masked keys (-inf, or a constant far below any logit) do not count. Returns
/// std::nullopt for fewer than 8 keys or a logit that is not finite.
std::optional<double> relative_entropy(std::span<const double> logits);

/// Returns the mean of the entropies that are not NaN; std::nullopt if all are NaN.
std::optional<double> mean_entropy(std::span<const double> entropies);

/// If the call is the softmax of an attention that is composed of separate ops, returns the node of the product of
/// query and key that computes its logits; there may be a scale, a mask, reshapes and casts in between. Returns null
/// for every other call, and if the ops record no graph for backward.
const Node* attention_scores(const OpCall& call, std::span<const Variable> inputs);

/// Returns the mean relative entropy over some of the rows, if the call is a fused attention, or a softmax for which
/// attention_scores() found a product (`of_scores`). Returns std::nullopt for every other call. `read`: the operands as
/// the op reads them.
std::optional<double> attention_entropy(const OpCall& call, std::span<const Tensor> read, bool of_scores);

/// The range of a ProbeBuffer that holds the relative entropies of the sampled rows; NaN if relative_entropy() of a row
/// is std::nullopt.
struct EntropiesOnDevice {
  std::int64_t first = 0, count = 0;
};
/// Computes attention_entropy() without host synchronization, on a device with probe kernels (core/kernels/probe.h).
std::optional<EntropiesOnDevice> probe_entropy(const OpCall& call, std::span<const Tensor> read, bool of_scores,
                                               ProbeBuffer& buffer);

}  // namespace binade::amp
