#include "binade/amp/incident/op_probe.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "binade/amp/verdict.h"
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

/// Facts about the elements of some tensors.
struct Magnitude {
  double largest = 0;
  bool has_nan = false, has_infinity = false;

  bool is_finite() const { return !has_nan && !has_infinity; }
  void add(const Tensor& tensor) {
    if (!tensor.defined() || !is_floating(tensor.dtype())) return;
    const Tensor dense = tensor.to(DType::f64).contiguous_copy();
    const auto* x = dense.data<double>();
    for (std::int64_t i = 0; i < dense.numel(); ++i) {
      has_nan = has_nan || std::isnan(x[i]);
      has_infinity = has_infinity || std::isinf(x[i]);
      largest = std::max(largest, std::abs(x[i]));
    }
  }
};

/// Computes the call on operands of `dtype` (std::nullopt: of their own), each element of which is moved away from 0 by
/// `nudge` of itself and `nudge`; gradients of outputs are multiplied by `factor`.
Magnitude compute(const RecordedCall& call, std::optional<DType> dtype, double nudge = 0, double factor = 1) {
  const PolicyScope in_their_dtype{PrecisionPolicy{}};
  const GradGuard recording;
  const auto operand_of = [&](const Tensor& tensor) {
    if (!tensor.defined()) return Variable();
    if (!is_floating(tensor.dtype())) return Variable(tensor);
    Tensor x = tensor.to(DType::f64).contiguous_copy();
    if (nudge != 0) {
      x = x.clone();
      auto* values = x.mutable_data<double>();
      for (std::int64_t i = 0; i < x.numel(); ++i) values[i] += nudge * (1 + std::abs(values[i]));
    }
    return Variable(x.to(dtype.value_or(tensor.dtype())), true);
  };
  std::vector<Variable> inputs;
  for (const Tensor& operand : call.operands) inputs.push_back(operand_of(operand));
  const std::vector<Variable> outputs = call.function(inputs);
  for (const Variable& output : outputs)
    check<DTypeError>(!dtype || !output.defined() || !is_floating(output.dtype()) || output.dtype() == *dtype,
                      "op probe: the op computes in {} whatever it reads", name_of(output.dtype()));
  Magnitude magnitude;
  if (call.gradients.empty()) {
    for (const Variable& output : outputs) magnitude.add(output.value());
    return magnitude;
  }
  for (std::size_t i = 0; i < outputs.size() && i < call.gradients.size(); ++i) {
    if (!call.gradients[i].defined() || !outputs[i].requires_grad()) continue;
    Tensor gy = call.gradients[i].to(DType::f64).clone();
    auto* values = gy.mutable_data<double>();
    for (std::int64_t k = 0; k < gy.numel(); ++k) values[k] *= factor;
    backward(outputs[i], gy.to(outputs[i].dtype()), {.retain_graph = true});
  }
  for (const Variable& input : inputs)
    if (input.defined() && input.requires_grad()) magnitude.add(input.grad());
  return magnitude;
}

ResultInDouble judge(const RecordedCall& call) {
  const Magnitude magnitude = compute(call, DType::f64);
  if (magnitude.is_finite())
    return magnitude.largest > range_of(call.dtype).largest ? ResultInDouble::kBeyondRange : ResultInDouble::kInRange;
  // Beside a singularity the value is finite; beyond the range of f64 it is infinite there too (exp of 1000).
  constexpr double kNudge = 1e-3;
  const Magnitude above = compute(call, DType::f64, kNudge), below = compute(call, DType::f64, -kNudge);
  if (above.is_finite() || below.is_finite()) return ResultInDouble::kSingular;
  const bool overflows = !magnitude.has_nan && !above.has_nan && !below.has_nan;
  return overflows ? ResultInDouble::kBeyondRange : ResultInDouble::kNotFinite;
}

/// Derivatives are linear in the gradients of the outputs: one that is finite for smaller gradients is no singularity.
bool has_finite_derivative(const RecordedCall& call) {
  if (call.gradients.empty()) return false;
  for (const double factor : {0x1p-8, 0x1p-16, 0x1p-24, 0x1p-32}) {
    const Magnitude magnitude = compute(call, {}, 0, factor);
    if (magnitude.is_finite()) return magnitude.largest > 0;
  }
  return false;
}

/// Calls f(); kUnknown if the op refuses its operands.
template <class F>
ResultInDouble unless_refused(F&& f) {
  try {
    return f();
  } catch (const Error&) {
    return ResultInDouble::kUnknown;
  }
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
}

void CallRecorder::after_backward(const OpCall& call, std::span<const Tensor>, std::span<const Tensor> gx,
                                  const Observation&) {
  if (!concerns(call)) return;
  const auto bad = std::ranges::find_if(gx, [](const Tensor& g) { return g.defined() && !all_finite(g); });
  if (bad != gx.end()) recorded_.dtype = bad->dtype();
}

ResultInDouble result_in_double(const RecordedCall& call) {
  if (!call.function) return ResultInDouble::kUnknown;
  const ResultInDouble result = unless_refused([&] { return judge(call); });
  if (result != ResultInDouble::kUnknown) return result;
  return unless_refused(
      [&] { return has_finite_derivative(call) ? ResultInDouble::kBeyondRange : ResultInDouble::kUnknown; });
}

}  // namespace binade::amp
