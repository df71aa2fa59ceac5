#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"

namespace binade {

/// y[i] = weight[indices[i]], copied unchanged, for `count` indices into `rows` rows of `cols` elements.
struct EmbeddingRowsArgs {
  const std::int64_t* indices = nullptr;
  std::int64_t count = 0, rows = 0, cols = 0, pitch = 0;  ///< pitch: elements between rows of the weight
  In weight{};
  Out y{};
  std::uint64_t call = 0;  ///< identifies the call in the report of an index out of range (core/faults.h)
};

/// gw[v] = the sum of gy[i] over all i with indices[i] = v. If `accumulate`, the sum is added to gw[v], with one
/// addition per element.
struct EmbeddingGradientArgs {
  const std::int64_t* indices = nullptr;
  std::int64_t count = 0, rows = 0, cols = 0;
  In gy{};
  Out gw{};
  bool accumulate = false;
};

namespace cpu {

/// Loops of one kernel level.
struct EmbeddingKernels {
  /// gw[v] (+)= sum of gy[token] over token = tokens[begin[v]] … tokens[begin[v + 1] - 1], added in that order.
  void (*gradient)(const EmbeddingGradientArgs& a, const std::int64_t* begin, const std::int64_t* tokens);
};

}  // namespace cpu
}  // namespace binade
