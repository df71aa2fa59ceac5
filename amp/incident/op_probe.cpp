#include "binade/amp/incident/op_probe.h"

#include <algorithm>
#include <cmath>

#include "binade/autograd/variable.h"
#include "binade/core/error.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"

namespace binade::amp {
namespace {

Tensors copies_of(std::span<const Tensor> tensors) {
  Tensors copies;
  for (const Tensor& tensor : tensors) copies.push_back(tensor.defined() ? tensor.on_host().clone() : Tensor());
  return copies;
}

Tensor in_double(const Tensor& tensor) {
  return tensor.defined() && is_floating(tensor.dtype()) ? tensor.to(DType::f64) : tensor;
}

/// The largest magnitude of some tensors; NaN if an element is not finite.
class Magnitude {
 public:
  void add(const Tensor& tensor) {
    if (!tensor.defined() || !is_floating(tensor.dtype())) return;
    const Tensor dense = tensor.to(DType::f64).contiguous_copy();
    const auto* x = dense.data<double>();
    for (std::int64_t i = 0; i < dense.numel(); ++i) {
      if (!std::isfinite(x[i])) finite_ = false;
      largest_ = std::max(largest_, std::abs(x[i]));
    }
  }
  ResultInDouble judge(DType dtype) const {
    if (!finite_) return ResultInDouble::kNotFinite;
    return largest_ > range_of(dtype).largest ? ResultInDouble::kBeyondRange : ResultInDouble::kInRange;
  }

 private:
  double largest_ = 0;
  bool finite_ = true;
};

ResultInDouble compute(const RecordedCall& call) {
  const PolicyScope in_their_dtype{PrecisionPolicy{}};
  const GradGuard recording;
  std::vector<Variable> inputs;
  for (const Tensor& operand : call.operands) {
    const Tensor wide = in_double(operand);
    inputs.emplace_back(wide.defined() ? Variable(wide, is_floating(wide.dtype())) : Variable());
  }
  const std::vector<Variable> outputs = call.function(inputs);
  Magnitude magnitude;
  if (call.gradients.empty()) {
    for (const Variable& output : outputs) magnitude.add(output.value());
    return magnitude.judge(call.dtype);
  }
  for (std::size_t i = 0; i < outputs.size() && i < call.gradients.size(); ++i)
    if (call.gradients[i].defined() && outputs[i].requires_grad())
      backward(outputs[i], in_double(call.gradients[i]), {.retain_graph = true});
  for (const Variable& input : inputs)
    if (input.defined() && input.requires_grad()) magnitude.add(input.grad());
  return magnitude.judge(call.dtype);
}

}  // namespace

RecordedCall record_forward(const OpCall& call, std::span<const Tensor> read, DType dtype) {
  if (call.function_of == nullptr) return {};
  return {.function = call.function_of(call.params), .operands = copies_of(read), .dtype = dtype};
}

bool CallRecorder::concerns(const OpCall& call) const {
  return call.tape_index == tape_index_ && step_context().micro_batch == static_cast<std::uint32_t>(micro_batch_);
}

void CallRecorder::before_forward(const OpCall& call, std::span<const Variable>, Tensors& read) {
  if (concerns(call)) recorded_ = record_forward(call, read, DType::f32);
}

void CallRecorder::before_backward(const OpCall& call, Tensors& gy) {
  if (!concerns(call)) return;
  recorded_.gradients = copies_of(gy);
  for (const Tensor& gradient : gy)
    if (gradient.defined()) recorded_.dtype = gradient.dtype();
}

ResultInDouble result_in_double(const RecordedCall& call) {
  if (!call.function) return ResultInDouble::kUnknown;
  try {
    return compute(call);
  } catch (const Error&) {
    return ResultInDouble::kUnknown;
  }
}

}  // namespace binade::amp
