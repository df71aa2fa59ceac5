#pragma once

#include <cstdint>

#include "binade/core/dtype.h"

namespace binade::cpu {

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

}  // namespace binade::cpu
