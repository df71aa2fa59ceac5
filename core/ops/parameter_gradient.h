#pragma once

#include "core/ops/op.h"

namespace binade::ops {

/// Where a kernel that computes in `dtype` writes the gradient of input i. Most often the sink's own storage; where
/// that is of another dtype (an f32 parameter of an f64 check), a temporary that finish() rounds into it.
class ParameterGradient {
 public:
  ParameterGradient(GradSink& sink, int i, DType dtype, bool exists = true) {
    if (!exists || !sink.needs(i)) return;
    destination_ = sink.destination(i);
    written_ = destination_.dtype() == dtype ? destination_
                                             : Tensor::empty(destination_.shape(), dtype, destination_.device());
  }
  bool wanted() const { return written_.defined(); }
  Tensor& tensor() { return written_; }
  void* raw() { return wanted() ? written_.mutable_raw() : nullptr; }
  void finish() {
    if (wanted() && written_.dtype() != destination_.dtype()) destination_.copy_from(written_);
  }

 private:
  Tensor destination_, written_;
};

/// The dtype of statistics and of the parameters of a norm over values of dtype x.
inline DType statistics_dtype(DType x) { return x == DType::f64 ? DType::f64 : DType::f32; }

/// A parameter as kernels read it; undefined stays undefined.
inline Tensor parameter_as(const Tensor& p, DType dtype) {
  return p.defined() ? p.to(dtype).contiguous_copy() : Tensor();
}

inline const void* raw_or_null(const Tensor& t) { return t.defined() ? t.raw() : nullptr; }

/// Throws unless `p` is left out or a floating tensor of shape (cols).
void check_channel_parameter(const OpInfo& info, const char* name, const Tensor& p, std::int64_t cols);

}  // namespace binade::ops
