#pragma once

#include <span>

#include "binade/core/tensor.h"
#include "binade/io/data/batch_order.h"

namespace binade::lab {

/// Inputs and what they should give, row by row: samples can be left out of it.
struct PairBatch {
  Tensor x{}, y{};
  io::BatchOrigin origin{};
  PairBatch without(std::span<const std::int64_t> rows) const {
    return {io::without_rows(x, rows), io::without_rows(y, rows), origin.without(rows)};
  }
};

}  // namespace binade::lab
