#pragma once

namespace binade::ops {

/// What a loss does with the losses of single elements (or rows, or samples).
enum class Reduction {
  kMean,       ///< their mean; NaN if there are none
  kSum,        ///< their sum
  kBatchMean,  ///< their sum, divided by the extent of dimension 0
  kNone,       ///< nothing: the result has one loss for each, so that they can be weighted
};

}  // namespace binade::ops
