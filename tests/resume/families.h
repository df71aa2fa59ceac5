#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade.h"
#include "tests/lab/pair_batch.h"

namespace binade::resume {

/// Rows of a family's task.
using Batch = lab::PairBatch;

/// A model of one kind, and the task that it learns. Large enough that its kernels cut their work into several blocks.
class Family {
 public:
  virtual ~Family() = default;
  virtual nn::Module& model() = 0;
  virtual Variable loss(const Batch& batch) = 0;  ///< one element
  /// Rows for these samples; a sample's rows depend on its number alone.
  virtual Batch make(std::span<const std::int64_t> samples) const = 0;
};

/// What the matrix knows of a family before one is made.
struct FamilyKind {
  std::string name{};
  std::function<std::unique_ptr<Family>()> make{};  ///< draws initial weights from the current Runtime
  bool real_input{};                                ///< x is f32: a sample can hold a NaN
  std::string
      product{};  ///< a module with a weight whose result leaves f16 when the weight is a million times as large
};

/// mlp (dropout), unet (batch norm, transposed convolutions), gpt (attention, dropout, shared table), norms (embedding,
/// RMS and layer norm), convnet (pooling, group norm), user (an op and a buffer of its own).
const std::vector<FamilyKind>& families();

}  // namespace binade::resume
