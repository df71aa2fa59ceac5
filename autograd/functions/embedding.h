#pragma once

#include "binade/autograd/variable.h"

namespace binade {

/// Returns y (…, D): the rows of weight (V, D) at indices (…), i64 or i32. See ops::Embedding.
Variable embedding(const Variable& weight, const Variable& indices);

}  // namespace binade
