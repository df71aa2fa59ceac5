#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Matrices of the same width stacked vertically, or vectors joined, as one operand: in place if they are adjacent in
/// memory (parameters whose optimizer stores them so: optim/flat_parameters.h), otherwise in a copy.
class Stacked {
 public:
  /// REQUIRES: at least one part, all of one dtype, device and width. If it copies, it does so now.
  explicit Stacked(std::span<const Tensor> parts);
  const void* raw() const { return data_; }

 private:
  Tensor copy_;
  const void* data_ = nullptr;
};

/// The gradients of inputs `first`, …, `first + count - 1`, matrices or vectors as above, as one tensor to be
/// overwritten completely: in place if their destinations are adjacent in memory, otherwise in a temporary that
/// finish() copies to the destinations. Undefined if no gradient is needed.
class StackedGradient {
 public:
  /// `dtype`: that of the kernel's result; std::nullopt: that of the destinations if they agree, else f32.
  StackedGradient(const OpContext& ctx, GradSink& sink, int first, int count, std::optional<DType> dtype = {});
  bool needed() const { return data_ != nullptr; }
  void* raw() const { return data_; }
  DType dtype() const { return dtype_; }
  void finish();

 private:
  std::vector<std::int64_t> rows_;  // of each input
  Tensors destinations_;            // undefined if not needed
  Tensor temporary_;
  DType dtype_ = DType::f32;
  void* data_ = nullptr;
};

}  // namespace binade::ops
