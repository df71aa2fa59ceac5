#pragma once

#include <utility>
#include <vector>

#include "binade/autograd/apply.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/softmax.h"

/// Reductions of variables over the given axes, or over all elements if no axes are given; see core/ops/reduce.h and
/// core/ops/softmax.h.
namespace binade {

inline Variable sum(const Variable& x, std::vector<int> axes = {}, bool keepdim = false) {
  return apply_one<ops::Sum>({std::move(axes), keepdim}, {x});
}
inline Variable mean(const Variable& x, std::vector<int> axes = {}, bool keepdim = false) {
  return apply_one<ops::Mean>({std::move(axes), keepdim}, {x});
}
inline Variable max(const Variable& x, std::vector<int> axes = {}, bool keepdim = false) {
  return apply_one<ops::Max>({std::move(axes), keepdim}, {x});
}
inline Variable softmax(const Variable& x, int axis = -1) { return apply_one<ops::Softmax>({axis}, {x}); }
inline Variable log_softmax(const Variable& x, int axis = -1) { return apply_one<ops::LogSoftmax>({axis}, {x}); }

}  // namespace binade
