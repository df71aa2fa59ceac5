#include "binade/amp/incident/op_probe.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

/// Changes the op's scalar parameter by a small amount, and raises its eps by the magnitude of this amount.
class ParameterNudge final : public TapeObserver {
 public:
  explicit ParameterNudge(double nudge) : nudge_(nudge) {}
  double eps_of(const OpCall&, double eps) override { return eps + std::abs(nudge_); }
  double scalar_of(const OpCall&, double scalar) override { return nudged(scalar, nudge_); }

  static double nudged(double x, double nudge) { return x + nudge * (1 + std::abs(x)); }

 private:
  double nudge_;
};

/// A change with which a call is computed again.
struct Change {
  std::optional<DType> operands{};  ///< dtype of the operands; std::nullopt: their own
  std::optional<DType> op{};        ///< dtype in which the op reads and stores, whatever the dtype of its operands
  std::function<double(double x, std::int64_t i)> value{};  ///< replaces element i, of value x, of each operand
  double gradient_factor = 1;                               ///< multiplies the gradients of the outputs
  double parameters = 0;                                    ///< nudges scalar parameters
};

/// Computes the call with a change.
Magnitude compute(const RecordedCall& call, const Change& change) {
  const PolicyScope policy{change.op ? PrecisionPolicy{}.with("*", *change.op) : PrecisionPolicy{}};
  const GradGuard recording;
  ParameterNudge nudge(change.parameters);
  std::optional<ObserverScope> nudging;
  if (change.parameters != 0) nudging.emplace(nudge);
  const auto operand_of = [&](const Tensor& tensor) {
    if (!tensor.defined()) return Variable();
    if (!is_floating(tensor.dtype())) return Variable(tensor);
    Tensor x = tensor.to(DType::f64).contiguous_copy();
    if (change.value) {
      x = x.clone();
      auto* values = x.mutable_data<double>();
      for (std::int64_t i = 0; i < x.numel(); ++i) values[i] = change.value(values[i], i);
    }
    return Variable(x.to(change.operands.value_or(tensor.dtype())), true);
  };
  std::vector<Variable> inputs;
  for (const Tensor& operand : call.operands) inputs.push_back(operand_of(operand));
  const std::vector<Variable> outputs = call.function(inputs);
  for (const Variable& output : outputs)
    check<DTypeError>(!change.operands || !output.defined() || !is_floating(output.dtype()) ||
                          output.dtype() == *change.operands,
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
    for (std::int64_t k = 0; k < gy.numel(); ++k) values[k] *= change.gradient_factor;
    backward(outputs[i], gy.to(outputs[i].dtype()), {.retain_graph = true});
  }
  for (const Variable& input : inputs)
    if (input.defined() && input.requires_grad()) magnitude.add(input.grad());
  return magnitude;
}

/// Calls f(); returns `otherwise` if it throws an Error, because the op refuses its operands.
template <class T, class F>
T unless_refused(T otherwise, F&& f) {
  try {
    return f();
  } catch (const Error&) {
    return otherwise;
  }
}

/// True if the call is finite for some operands that have nothing to do with its own: numbers near 1/2, 3/2 or -1/2 and
/// smaller gradients; or if the op refuses such operands. Otherwise no operand is to blame.
bool is_finite_elsewhere(const RecordedCall& call) {
  constexpr double kNear[] = {0.5, 1.5, -0.5};
  return std::ranges::any_of(kNear, [&](double near) {
    // The elements differ, so that no variance or difference is 0.
    const auto value = [near](double, std::int64_t i) { return near + static_cast<double>(i * 7 % 11 - 5) / 32; };
    return unless_refused(true, [&] {
      return compute(call, {.operands = DType::f64, .value = value, .gradient_factor = 0x1p-32}).is_finite();
    });
  });
}

/// True if an intermediate value of the op exceeds the range of f16, although its result in f64 does not. Then the op
/// is finite for smaller operands, and also in bf16, which is coarser than f16 but has a wider range. If f16 rounded a
/// constant away instead, neither would be finite.
bool overflows_within(const RecordedCall& call) {
  if (call.dtype != DType::f16) return false;  // the other dtypes have the range of f32
  return unless_refused(false, [&] {
    if (compute(call, {.op = DType::f16}).is_finite()) return false;
    const auto smaller = [](double x, std::int64_t) { return 0x1p-8 * x; };
    return compute(call, {.op = DType::f16, .value = smaller, .gradient_factor = 0x1p-8}).is_finite() &&
           compute(call, {.operands = DType::bf16, .op = DType::bf16}).is_finite();
  });
}

ResultInDouble judge(const RecordedCall& call) {
  const Magnitude magnitude = compute(call, {.operands = DType::f64});
  if (magnitude.is_finite()) {
    const bool is_beyond = magnitude.largest > range_of(call.dtype).largest || overflows_within(call);
    return is_beyond ? ResultInDouble::kBeyondRange : ResultInDouble::kInRange;
  }
  // Near a singularity, the value is finite; if it is beyond the range of f64 (exp of 1000), it is infinite there too.
  // A scalar parameter may be at a singularity as well (division by 0).
  const auto beside = [&](double nudge) {
    return compute(call, {.operands = DType::f64,
                          .value = [nudge](double x, std::int64_t) { return ParameterNudge::nudged(x, nudge); },
                          .parameters = nudge});
  };
  const Magnitude above = beside(1e-3), below = beside(-1e-3);
  if (above.is_finite() || below.is_finite()) return ResultInDouble::kSingular;
  const bool overflows = !magnitude.has_nan && !above.has_nan && !below.has_nan;
  if (overflows) return ResultInDouble::kBeyondRange;
  return is_finite_elsewhere(call) ? ResultInDouble::kNotFinite : ResultInDouble::kNeverFinite;
}

/// True if the derivative is finite, and not 0, for smaller gradients of the outputs. It is linear in these gradients,
/// so that the op is not at a singularity.
bool has_finite_derivative(const RecordedCall& call) {
  if (call.gradients.empty()) return false;
  for (const double factor : {0x1p-8, 0x1p-16, 0x1p-24, 0x1p-32}) {
    const Magnitude magnitude = compute(call, {.gradient_factor = factor});
    if (magnitude.is_finite()) return magnitude.largest > 0;
  }
  return false;
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
  const ResultInDouble result = unless_refused(ResultInDouble::kUnknown, [&] { return judge(call); });
  if (result != ResultInDouble::kUnknown) return result;
  return unless_refused(ResultInDouble::kUnknown, [&] {
    return has_finite_derivative(call) ? ResultInDouble::kBeyondRange : ResultInDouble::kUnknown;
  });
}

bool sums_are_in_range(const RecordedCall& call) {
  // No partial sum exceeds the product of the largest operands, the largest gradient and the number of terms.
  double bound = 1;
  const auto multiply_by = [&](const Tensor& tensor) {
    Magnitude magnitude;
    magnitude.add(tensor);
    bound *= std::max(1.0, magnitude.largest);
  };
  std::int64_t terms = 1;
  for (const Tensor& operand : call.operands) {
    if (!operand.defined()) continue;
    multiply_by(operand);
    terms = std::max(terms, operand.numel());
  }
  for (const Tensor& gradient : call.gradients)
    if (gradient.defined()) multiply_by(gradient);
  if (bound * static_cast<double>(terms) > range_of(DType::f32).largest) return false;
  return compute(call, {.operands = DType::f64}).largest <= range_of(call.dtype).largest / 2;
}

}  // namespace binade::amp
