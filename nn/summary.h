#pragma once

#include <functional>
#include <string>
#include <vector>

#include "binade/nn/module.h"

namespace binade::nn {

/// One line of a summary: a module (the root has path ""), or the ops whose path is not that of a module (kind "-").
struct SummaryRow {
  std::string path{}, kind{};
  std::string output_shape{};  ///< output of the last op in the module or a submodule; "" if none was recorded
  /// Number of elements of its own parameters, without submodules. A tied parameter counts where it is named first.
  std::int64_t parameters = 0;
  std::int64_t flops = 0;  ///< 2 per multiply-add of its own products in forward; elementwise ops do not count
  std::int64_t activation_bytes = 0;  ///< saved for backward by its own ops; memory that two ops save counts once
  std::string precision{};            ///< dtypes of the first inputs of its ops: "f16", "f16 f32"; "" without ops
};

/// The ops and parameters of a model, by module.
struct Summary {
  std::vector<SummaryRow> rows{};                                ///< in visit order, the root first
  std::int64_t parameters = 0, flops = 0, activation_bytes = 0;  ///< totals of the rows

  std::string to_string() const;  ///< table with a line of totals
};

/// Runs `forward` once with recording under the current policy and reports the recorded ops. A recomputed segment
/// counts as one op. Buffers are not changed.
Summary summary(Module& root, const std::function<Variable()>& forward);
/// Like summary(root, forward), where forward is root(x).
Summary summary(Module& root, const Variable& x);

}  // namespace binade::nn
