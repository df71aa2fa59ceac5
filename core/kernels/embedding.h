#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace binade::cpu {

/// gw[row[i]] += sum of gy[token] over token = tokens[begin[i]] … tokens[begin[i + 1] - 1], added in that order. gw is
/// of `gw_dtype`, f32 or f64; other rows of it are not touched.
struct EmbeddingGradient {
  DType gy_dtype = DType::f32;
  DType gw_dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
  const std::int64_t* row = nullptr;
  const std::int64_t* begin = nullptr;
  const std::int64_t* tokens = nullptr;
  const void* gy = nullptr;
  void* gw = nullptr;
};

struct EmbeddingKernels {
  void (*gradient)(const EmbeddingGradient&);
};

}  // namespace binade::cpu
