#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "binade/core/ops/op.h"

namespace binade::ops {

/// Matrices of one width below one another, or vectors end to end, as one. Where they lie so in memory (parameters
/// whose optimizer has laid them there: optim/flat_parameters.h), in place; else in a copy.
class Stacked {
 public:
  /// At least one, of one dtype and device; matrices of one width. Reads nothing later than this where it copies.
  explicit Stacked(std::span<const Tensor> parts);
  const void* raw() const { return data_; }

 private:
  Tensor copy_;
  const void* data_ = nullptr;
};

/// The gradients of inputs `first`, …, `first + count - 1`, matrices or vectors as above, as one tensor to be
/// overwritten whole: in place where their destinations lie so, else in a temporary that finish() copies to those that
/// are wanted. Nothing where none is.
class StackedGradient {
 public:
  /// `dtype`: what a kernel writes; nothing: what the destinations have, where they agree, else f32.
  StackedGradient(const OpContext& ctx, GradSink& sink, int first, int count, std::optional<DType> dtype = {});
  bool wanted() const { return data_ != nullptr; }
  void* raw() const { return data_; }
  DType dtype() const { return dtype_; }
  void finish();

 private:
  std::vector<std::int64_t> rows_;  // of each input
  Tensors destinations_;            // undefined where not wanted
  Tensor temporary_;
  DType dtype_ = DType::f32;
  void* data_ = nullptr;
};

}  // namespace binade::ops
