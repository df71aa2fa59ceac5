#pragma once

#include <functional>
#include <string>
#include <vector>

#include "binade/nn/module.h"

namespace binade::nn {

/// One module, or the ops outside modules (the path of the root is "").
struct SummaryRow {
  std::string path{}, kind{};
  std::string output_shape{};   ///< of the last op in the module or below; "" if none was recorded
  std::int64_t parameters = 0;  ///< of this module without submodules; a tied one counts where it is named first
  std::int64_t flops = 0;       ///< of its own products in forward, 2 per multiply-add; elementwise work does not count
  std::int64_t activation_bytes = 0;  ///< saved for backward by its own ops; memory that two ops save counts once
  std::string precision{};            ///< dtypes of the first inputs of its ops, "f16" or "f16 f32"; "" without ops
};

struct Summary {
  std::vector<SummaryRow> rows{};  ///< in visit order, the root first
  std::int64_t parameters = 0, flops = 0, activation_bytes = 0;

  std::string to_string() const;  ///< table with a line of totals
};

/// Runs `forward` once with recording under the current policy and reports the recorded ops. A recomputed segment
/// counts as one op. Buffers are not changed.
Summary summary(Module& root, const std::function<Variable()>& forward);
/// The same for root(x).
Summary summary(Module& root, const Variable& x);

}  // namespace binade::nn
