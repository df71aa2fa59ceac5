#pragma once

#include <vector>

#include "binade/nn/module.h"

namespace binade::nn {

/// How the values that several ranks wrote into a buffer in one step are combined. The result is the value that a
/// single rank would have written if it had computed all micro-batches.
enum class SharedRule {
  /// Forward writes the buffer at most once in a step. The value depends on weights and buffers, not on the batch. All
  /// ranks must have the same bits.
  kOncePerStep,
  /// Each micro-batch may raise the elements (f32), such as a largest magnitude. The maximum over the ranks is taken.
  kMaximum,
  /// Each micro-batch adds to the elements (integers), such as a count. The additions of all ranks are added.
  kIntegerSum,
};

/// A module with buffers that forward changes, for training over several ranks (docs/ranks.md). Such training is an
/// error if a module changes a buffer in forward, unless the module also derives from this class and names the buffer:
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
