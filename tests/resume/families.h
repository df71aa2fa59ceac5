#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade.h"
#include "tests/lab/pair_batch.h"

namespace binade::resume {

/// A batch of a family's task.
using Batch = lab::PairBatch;

/// A model and the task that it learns. It is large enough that its kernels divide their work into several blocks.
class Family {
 public:
  virtual ~Family() = default;
  virtual nn::Module& model() = 0;
  virtual Variable loss(const Batch& batch) = 0;  ///< a scalar
  /// The batch of these samples; a sample's row depends on its id alone.
  virtual Batch make(std::span<const std::int64_t> samples) const = 0;
};

/// Describes a family, and makes its objects.
struct FamilyKind {
  std::string name{};
  std::function<std::unique_ptr<Family>()> make{};  ///< draws initial weights from the current Runtime
  bool real_input{};                                ///< x is f32: a sample can hold a NaN
  std::string product{};  ///< path of a module; if its weight is multiplied by a million, its result overflows f16
};

/// mlp (dropout), unet (batch norm, transposed convolutions), gpt (attention, dropout, shared table), norms (embedding,
/// RMS and layer norm), convnet (pooling, group norm), user (an op and a buffer of its own).
const std::vector<FamilyKind>& families();

}  // namespace binade::resume
