#pragma once

#include <functional>
#include <string>
#include <vector>

#include "binade/nn/module.h"

namespace binade::nn {

/// One module, or the ops that ran outside modules (the root's own path is "").
struct SummaryRow {
  std::string path{}, kind{};
  std::string output_shape{};   ///< of the last op in the module or below it; "" when none was recorded
  std::int64_t parameters = 0;  ///< its own, not its children's; a tied one counts where it is named first
  std::int64_t flops = 0;       ///< of its own products, forward: 2 per multiply-add; element-wise work does not count
  std::int64_t activation_bytes = 0;  ///< kept for backward by its own ops; memory that two ops keep counts once
  std::string precision{};  ///< dtypes that its ops' first inputs were read in, "f16" or "f16 f32"; "" without ops
};

struct Summary {
  std::vector<SummaryRow> rows{};  ///< in visit order, the root first
  std::int64_t parameters = 0, flops = 0, activation_bytes = 0;

  std::string to_string() const;  ///< a table with a line of totals
};

/// Runs `forward` once, with the tape on and under the policy in force, and reports what was recorded. Recomputed
/// segments count as one op. Buffers are left as they were.
Summary summary(Module& root, const std::function<Variable()>& forward);
/// The same for root(x).
Summary summary(Module& root, const Variable& x);

}  // namespace binade::nn
