#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"

namespace binade {

/// Sums over *taps*: tap t of point p of batch b refers to row index[b, p, t] of a table, with a weight. An index
/// outside of [0, rows) refers to no row: the tap contributes nothing, and its derivative is 0.
struct TapSums {
  std::int64_t batches = 0, rows = 0, points = 0, taps = 0, cols = 0;
  const std::int64_t* index = nullptr;  ///< (batches, points, taps)
};

/// points[b, p] = the sum over t of weight[b, p, t] table[b, index[b, p, t]], in the order of t.
struct WeightedGatherArgs {
  TapSums sums{};
  In table{};    ///< (batches, rows, cols)
  In weight{};   ///< (batches, points, taps), f32 or f64
  Out points{};  ///< (batches, points, cols)
};

/// table[b, r] = the sum of weight[b, p, t] points[b, p] over all p, t with index[b, p, t] = r, in the order of p and
/// t.
struct WeightedScatterArgs {
  TapSums sums{};
  In points{};
  In weight{};
  Out table{};
};

/// products[b, p, t] = the sum over columns of table[b, index[b, p, t]] points[b, p], in the order of the columns.
struct WeightedDotArgs {
  TapSums sums{};
  In table{};
  In points{};
  Out products{};  ///< (batches, points, taps)
};

}  // namespace binade
