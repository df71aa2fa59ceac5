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

/// Its mean over a sample of the rows of an attention: of the op, or of a softmax in a module whose path says
/// "attention". Nothing for other calls.
std::optional<double> attention_entropy(const OpCall& call, std::span<const Tensor> read);

/// The mean of those that are numbers; nothing where none is.
std::optional<double> mean_entropy(std::span<const double> entropies);

/// Where a device leaves the relative entropies of the rows that attention_entropy() looks at: NaN for nothing.
struct EntropiesThere {
  std::int64_t number = 0, count = 0;  ///< of DeviceNumbers
};
/// As attention_entropy() for a call on a device with look kernels (core/look_kernels.h), which does not wait.
std::optional<EntropiesThere> look_at_entropy(const OpCall& call, std::span<const Tensor> read, DeviceNumbers& numbers);

}  // namespace binade::amp
