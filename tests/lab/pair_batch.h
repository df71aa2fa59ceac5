#pragma once

#include <span>

#include "binade/core/tensor.h"
#include "binade/io/data/batch_order.h"

namespace binade::lab {

/// A batch of inputs and targets, row by row, from which samples can be left out.
struct PairBatch {
  Tensor x{}, y{};
  io::BatchOrigin origin{};
  PairBatch without(std::span<const std::int64_t> rows) const {
    return {io::without_rows(x, rows), io::without_rows(y, rows), origin.without(rows)};
  }
};

}  // namespace binade::lab
