#pragma once

#include "binade/autograd/apply.h"
#include "binade/core/ops/embedding.h"

namespace binade {

/// Returns y (…, D): the rows of weight (V, D) at indices (…), i64 or i32. See ops::Embedding.
inline Variable embedding(const Variable& weight, const Variable& indices) {
  return apply_one<ops::Embedding>({}, {weight, indices});
}

}  // namespace binade
