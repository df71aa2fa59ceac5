#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/derivatives/transposed.h"

namespace binade::derivatives {
namespace {

/// Returns the sum along one axis, which stays with extent 1. A scalar is its own sum.
Variable sum_along(const Variable& x, int axis) { return x.value().rank() == 0 ? x : sum(x, {axis}, true); }

Variables softmax_gradient(const RecordedCall& call) {
  const int axis = call.params<ops::Softmax>().axis;
  const Variable y = wide(call.output(0, 0)), gy = wide(call.gy());
  return {y * (gy - sum_along(gy * y, axis))};
}

Variables log_softmax_gradient(const RecordedCall& call) {
  const int axis = call.params<ops::LogSoftmax>().axis;
  const Variable y = wide(call.output(0, 0)), gy = wide(call.gy());
  return {gy - exp(y) * sum_along(gy, axis)};
}

/// Each maximum gets its share of gy. The shares are constants, which the op's backward computes for gy = 1.
Variables max_gradient(const RecordedCall& call) {
  const Shape kept = ops::keepdim_shape(call.described(0).shape, call.params<ops::Max>().axes, ops::Max::info.name);
  const Tensor one = Tensor::full(call.gy().shape(), 1, call.gy().dtype(), call.gy().device());
  return {wide(shaped(call.gy(), kept)) * call.backward_of({one}).front()};
}

constexpr Entry kEntries[] = {
    {&ops::Sum::info, [](const RecordedCall& c) { return transposed<ops::Sum>(c); }},
    {&ops::Mean::info, [](const RecordedCall& c) { return transposed<ops::Mean>(c); }},
    {&ops::Max::info, max_gradient},
    {&ops::Softmax::info, softmax_gradient},
    {&ops::LogSoftmax::info, log_softmax_gradient},
};

}  // namespace

std::span<const Entry> derivatives_of_reductions() { return kEntries; }

}  // namespace binade::derivatives
