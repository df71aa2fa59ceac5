#pragma once

#include <cstdint>

#include "binade/core/kernels/elementwise.h"

namespace binade {

/// y[i] = weight[indices[i]], copied as it is: `count` indices into `rows` rows of `cols` elements.
struct EmbeddingRowsArgs {
  const std::int64_t* indices = nullptr;
  std::int64_t count = 0, rows = 0, cols = 0, pitch = 0;  ///< pitch of the weight
  In weight{};
  Out y{};
  std::uint64_t call = 0;  ///< identifies the call in the report of an index out of range (core/faults.h)
};

/// gw[v] = the sum of gy[i] over all i with indices[i] = v, or gw[v] += that sum, with one addition per element.
struct EmbeddingGradientArgs {
  const std::int64_t* indices = nullptr;
  std::int64_t count = 0, rows = 0, cols = 0;
  In gy{};
  Out gw{};
  bool accumulate = false;
};

namespace cpu {

/// gw[v] = sum of gy[token] over token = tokens[begin[v]] … tokens[begin[v + 1] - 1], added in that order; where it
/// accumulates, the sum is added to what is there. gw is of `gw_dtype`, f32 or f64.
struct EmbeddingGradient {
  DType gy_dtype = DType::f32;
  DType gw_dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
  const std::int64_t* begin = nullptr;  ///< rows + 1
  const std::int64_t* tokens = nullptr;
  const void* gy = nullptr;
  void* gw = nullptr;
  bool accumulate = false;
};

struct EmbeddingKernels {
  void (*gradient)(const EmbeddingGradient&);
};

}  // namespace cpu
}  // namespace binade
