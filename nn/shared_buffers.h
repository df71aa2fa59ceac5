#pragma once

#include <vector>

#include "binade/nn/module.h"

namespace binade::nn {

/// How the values that several ranks have written into a buffer in one step become one value: that which one rank would
/// have written that computes all micro-batches.
enum class SharedRule {
  /// Forward writes it at most once in a step, by a rule that depends on weights and buffers and not on the batch. All
  /// ranks must have the same bits.
  kOncePerStep,
  /// Each micro-batch raises its elements (f32), such as a largest magnitude. The ranks' maximum is taken.
  kMaximum,
  /// Each micro-batch adds to its elements (integers), such as a count. The ranks' additions are added.
  kIntegerSum,
};

/// A module with buffers that forward changes, for training over several ranks (docs/ranks.md). A module of your own
/// that changes a buffer in forward is refused over ranks unless it derives from this class too and names the buffer:
///
///     struct Counter : nn::Module, nn::SharesBuffers {
///       nn::Buffer calls{Tensor::from({std::int64_t{0}})};
///       std::vector<nn::SharedBuffer> shared_buffers() override { return {{&calls, nn::SharedRule::kIntegerSum}}; }
///       …
class SharesBuffers {
 public:
  struct Entry {
    Buffer* buffer = nullptr;
    SharedRule rule = SharedRule::kOncePerStep;
  };
  /// Returns the buffers of this module itself, the same ones in every call.
  virtual std::vector<Entry> shared_buffers() = 0;

 protected:
  ~SharesBuffers() = default;
};

using SharedBuffer = SharesBuffers::Entry;

}  // namespace binade::nn
