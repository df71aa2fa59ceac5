#pragma once

#include "binade/core/kernels/elementwise.h"
#include "binade/core/kernels/probe.h"
#include "binade/core/tensor.h"

/// Kernel arguments made from tensors.
namespace binade {

inline In input(const Tensor& t) { return {t.raw(), t.dtype()}; }
inline Out output(Tensor& t) { return {t.mutable_raw(), t.dtype()}; }
inline InputRows input_rows(const Tensor& t) { return {t.raw(), t.dtype(), t.pitch()}; }
inline OutputRows output_rows(Tensor& t) { return {t.mutable_raw(), t.dtype(), t.pitch()}; }
inline ProbedValues probed_values(const Tensor& t) { return {input_rows(t), t.shape().rows(), t.shape().cols()}; }

}  // namespace binade
