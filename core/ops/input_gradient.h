#pragma once

#include "binade/core/accumulate.h"
#include "binade/core/ops/op.h"

namespace binade::ops {

/// Where a kernel that writes `dtype` puts the gradient of input i. Most often the sink's own storage; where that is of
/// another dtype (an f32 parameter of an f64 check), a temporary that finish() rounds into it. Nothing where the
/// gradient is not wanted. `saved`: the saved tensor over which it may be written (GradSink::destination_over).
class InputGradient {
 public:
  InputGradient(GradSink& sink, int i, DType dtype, bool exists = true, int saved = -1) {
    if (!exists || !sink.needs(i)) return;
    destination_ = saved < 0 ? sink.destination(i) : sink.destination_over(i, saved);
    written_ = destination_.dtype() == dtype ? destination_
                                             : Tensor::empty(destination_.shape(), dtype, destination_.device());
  }
  bool wanted() const { return written_.defined(); }
  Tensor& tensor() { return written_; }
  void* raw() { return wanted() ? written_.mutable_raw() : nullptr; }  ///< null where not wanted
  void finish() {
    if (wanted() && written_.dtype() != destination_.dtype()) destination_.copy_from(written_);
  }

 private:
  Tensor destination_, written_;
};

/// The same for a kernel that can add to what is there, and must where holds().
class GradientSum {
 public:
  GradientSum(GradSink& sink, int i, DType dtype) {
    if (!sink.needs(i)) return;
    sum_ = sink.add_to(i);
    written_ = direct(dtype) ? sum_.tensor : Tensor::empty(sum_.tensor.shape(), dtype, sum_.tensor.device());
  }
  bool wanted() const { return written_.defined(); }
  bool holds() const { return sum_.holds && direct(written_.dtype()); }
  Tensor& tensor() { return written_; }
  void* raw() { return wanted() ? written_.mutable_raw() : nullptr; }
  void finish() {
    if (!wanted() || direct(written_.dtype())) return;
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
