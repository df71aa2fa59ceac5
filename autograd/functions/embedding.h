#pragma once

#include "binade/autograd/variable.h"

namespace binade {

/// y (…, D) = rows of weight (V, D) at indices (…), i64 or i32; contract: core/ops/embedding.h.
Variable embedding(const Variable& weight, const Variable& indices);

}  // namespace binade
