#pragma once

#include "binade/cuda/calls/elementwise.h"

namespace binade::cuda {

/// Embedding::Kernels (core/ops/embedding.h): `count` indices into `rows` rows of `cols` elements.
struct EmbeddingRowsCall {
  const std::int64_t* indices = nullptr;
  std::int64_t count = 0, rows = 0, cols = 0, pitch = 0;  ///< pitch: of the weight
  Source weight;
  Target y;
  std::uint64_t number = 0;  ///< under which an index out of range is noted (cuda/faults.h)
};
struct EmbeddingGradientCall {
  const std::int64_t* indices = nullptr;
  std::int64_t count = 0, rows = 0, cols = 0;
  Source gy;
  Target gw;  ///< is added to
};

}  // namespace binade::cuda
