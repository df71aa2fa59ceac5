#pragma once

#include <cstdint>

#include "binade/core/memory_plan.h"

namespace binade::amp {

/// What a piece of work took with `few` and with `more` rows, as it would be with `rows`. Where both took the same
/// blocks in the same order, as they do in a model whose ops do not depend on the data, each block grows by itself, so
/// that it does not matter which op holds the most at which size. Else the peaks are drawn out.
struct TracedRows {
  std::int64_t rows = 0;
  MemoryTrace trace{};
};
double peak_with(std::int64_t rows, const TracedRows& few, const TracedRows& more);

}  // namespace binade::amp
