#pragma once

#include "binade/core/ops/op.h"

namespace binade::ops {

/// The tensor of `dtype` that a kernel writes the gradient of input i to. Usually it is the destination that the sink
/// provides. If the destination has another dtype (such as an f32 parameter in an f64 gradcheck), it is a temporary
/// tensor, which finish() rounds into the destination. It is undefined if the gradient is not needed or the input does
/// not exist. If `saved` >= 0, the gradient may overwrite the saved tensor at that position
/// (GradSink::destination_over).
class InputGradient {
 public:
  InputGradient(GradSink& sink, int i, DType dtype, bool exists = true, int saved = -1) {
    if (!exists || !sink.needs(i)) return;
    destination_ = saved < 0 ? sink.destination(i) : sink.destination_over(i, saved);
    written_ = destination_.dtype() == dtype ? destination_
                                             : Tensor::empty(destination_.shape(), dtype, destination_.device());
  }
  bool needed() const { return written_.defined(); }
  Tensor& tensor() { return written_; }
  void* raw() { return needed() ? written_.mutable_raw() : nullptr; }  ///< null if not needed
  void finish() {
    if (needed() && written_.dtype() != destination_.dtype()) destination_.copy_from(written_);
  }

 private:
  Tensor destination_, written_;
};

/// Like InputGradient, for a kernel that can add to existing values: if holds(), the kernel must add to the tensor,
/// otherwise overwrite it.
class GradientSum {
 public:
  GradientSum(GradSink& sink, int i, DType dtype) {
    if (!sink.needs(i)) return;
    sum_ = sink.add_to(i);
    written_ = direct(dtype) ? sum_.tensor : Tensor::empty(sum_.tensor.shape(), dtype, sum_.tensor.device());
  }
  bool needed() const { return written_.defined(); }
  bool holds() const { return sum_.holds && direct(written_.dtype()); }
  Tensor& tensor() { return written_; }
  void* raw() { return needed() ? written_.mutable_raw() : nullptr; }
  void finish() {
    if (!needed() || direct(written_.dtype())) return;
    if (sum_.holds)
      accumulate(sum_.tensor, written_.to(sum_.tensor.dtype()));
    else
      sum_.tensor.copy_from(written_);
  }

 private:
  bool direct(DType dtype) const { return sum_.tensor.dtype() == dtype; }

  GradSink::Sum sum_;
  Tensor written_;
};

}  // namespace binade::ops
