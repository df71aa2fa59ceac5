#pragma once

#include <optional>
#include <span>

#include "binade/amp/watch/device_numbers.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// The entropy of the probabilities that a softmax makes of `logits`, as a share of the logarithm of their number: 1
/// when all are alike, 0 when one takes everything. A key that is masked (-inf, or a constant far below any logit) does
/// not count. Nothing for fewer than 8 keys, and where a logit is not finite.
std::optional<double> relative_entropy(std::span<const double> logits);

/// The product of two activations whose result, but for scale, mask, shape and dtype, an op that takes masks reads as
/// its logits: query times key of an attention that is composed of ops. Null: there is none, or no gradient passes.
const Node* attention_scores(const OpCall& call, std::span<const Variable> inputs);

/// Its mean over a sample of the rows of an attention: of the op, or of a softmax over attention_scores(). Nothing for
/// other calls.
std::optional<double> attention_entropy(const OpCall& call, std::span<const Tensor> read, bool of_scores);

/// The mean of those that are numbers; nothing where none is.
std::optional<double> mean_entropy(std::span<const double> entropies);

/// Where a device leaves the relative entropies of the rows that attention_entropy() looks at: NaN for nothing.
struct EntropiesThere {
  std::int64_t number = 0, count = 0;  ///< of DeviceNumbers
};
/// attention_entropy() without host synchronization, for a device with probe kernels (core/kernels/probe.h).
std::optional<EntropiesThere> look_at_entropy(const OpCall& call, std::span<const Tensor> read, bool of_scores,
                                              DeviceNumbers& numbers);

}  // namespace binade::amp
