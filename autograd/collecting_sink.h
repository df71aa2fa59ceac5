#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "binade/core/ops/op.h"

namespace binade {

/// Collects the gradients that an op's backward computes, one tensor for each input.
class CollectingSink final : public GradSink {
 public:
  /// `needed`: for each input, whether its gradient is needed. `context` must outlive the object.
  CollectingSink(const OpContext& context, std::vector<bool> needed)
      : context_(context), needed_(std::move(needed)), gradients_(context.inputs.size()) {}

  bool needs(int i) const override {
    return static_cast<std::size_t>(i) < needed_.size() && needed_[static_cast<std::size_t>(i)];
  }
  Tensor destination(int i) override {
    const OpContext::Input& input = context_.inputs[static_cast<std::size_t>(i)];
    gradients_[static_cast<std::size_t>(i)] = Tensor::empty(input.shape, input.grad_dtype, input.device);
    return gradients_[static_cast<std::size_t>(i)];
  }
  void set(int i, Tensor gradient) override {
    if (needs(i)) gradients_[static_cast<std::size_t>(i)] = std::move(gradient);
  }

  /// Returns the gradient of each input, undefined if it was not needed. It may share the storage of gy.
  const Tensors& gradients() const { return gradients_; }

 private:
  const OpContext& context_;
  std::vector<bool> needed_;
  Tensors gradients_;
};

}  // namespace binade
