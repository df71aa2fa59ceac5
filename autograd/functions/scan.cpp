#include "binade/autograd/functions/scan.h"

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/index.h"
#include "binade/core/ops/cumulate.h"

namespace binade {

Variable cumsum(const Variable& x, int axis) {
  return apply_one<ops::Cumulate>({.axis = axis, .how = Cumulation::kSum, .name = "cumsum"}, {x});
}

Variable cumprod(const Variable& x, int axis) {
  return apply_one<ops::Cumulate>({.axis = axis, .how = Cumulation::kProduct, .name = "cumprod"}, {x});
}

Variable logcumsumexp(const Variable& x, int axis) {
  return apply_one<ops::Cumulate>({.axis = axis, .how = Cumulation::kLogSumExp, .name = "logcumsumexp"}, {x});
}

IndexedResult detail::values_at(const Variable& x, int axis, Variable indices) {
  Variable values = gather(x, axis, indices);
  return {std::move(values), std::move(indices)};
}

IndexedResult cummax(const Variable& x, int axis) {
  return detail::values_at(x, axis, apply_one<ops::CumulativeExtreme>({.axis = axis, .largest = true}, {x}));
}

IndexedResult cummin(const Variable& x, int axis) {
  return detail::values_at(x, axis, apply_one<ops::CumulativeExtreme>({.axis = axis, .largest = false}, {x}));
}

}  // namespace binade
