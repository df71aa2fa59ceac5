#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Matrices of the same width stacked vertically, or vectors joined, as one operand. If they are adjacent in memory, as
/// an optimizer places parameters (optim/flat_parameters.h), they are used in place, otherwise copied.
class Stacked {
 public:
  /// REQUIRES: at least one part, all of one dtype, device and width. If the parts must be copied, the constructor does
  /// so.
  explicit Stacked(std::span<const Tensor> parts);
  const void* raw() const { return data_; }

 private:
  Tensor copy_;
  const void* data_ = nullptr;
};

/// The gradients of inputs `first`, …, `first + count - 1` as one tensor that a kernel overwrites completely. The
/// inputs are matrices or vectors as in Stacked. If the destinations of the gradients are adjacent in memory, they are
/// written in place; otherwise a temporary tensor is written, which finish() copies to the destinations. raw() is null
/// if no gradient is needed.
class StackedGradient {
 public:
  /// `dtype`: dtype in which the kernel writes; std::nullopt: the dtype of the destinations if all have the same, else
  /// f32.
  StackedGradient(const OpContext& ctx, GradSink& sink, int first, int count, std::optional<DType> dtype = {});
  bool needed() const { return data_ != nullptr; }
  void* raw() const { return data_; }
  DType dtype() const { return dtype_; }
  void finish();

 private:
  std::vector<std::int64_t> rows_;  // number of rows of each input
  Tensors destinations_;            // one per input; undefined if its gradient is not needed
  Tensor temporary_;
  DType dtype_ = DType::f32;
  void* data_ = nullptr;
};

}  // namespace binade::ops
