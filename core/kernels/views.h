#pragma once

#include "binade/core/kernels/elementwise.h"
#include "binade/core/kernels/probe.h"
#include "binade/core/tensor.h"

/// Kernel arguments made from tensors.
namespace binade {

/// Return the elements of a contiguous tensor, as a kernel's input or output.
inline In input(const Tensor& t) { return {t.raw(), t.dtype()}; }
inline Out output(Tensor& t) { return {t.mutable_raw(), t.dtype()}; }
/// Return the rows of a tensor, which may be a channel slice.
inline InputRows input_rows(const Tensor& t) { return {t.raw(), t.dtype(), t.pitch()}; }
inline OutputRows output_rows(Tensor& t) { return {t.mutable_raw(), t.dtype(), t.pitch()}; }
/// Returns the values of a tensor for a probe.
inline ProbedValues probed_values(const Tensor& t) { return {input_rows(t), t.shape().rows(), t.shape().cols()}; }

}  // namespace binade
