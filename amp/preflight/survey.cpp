#include "binade/amp/preflight/survey.h"

#include <cmath>

#include "binade/autograd/node.h"
#include "binade/core/ops/cross_entropy.h"
#include "binade/core/step_context.h"

namespace binade::amp {
namespace {

constexpr std::size_t kSmall = 1 << 20;  // bytes; smaller results are always held (Survey::held_)

/// True for ops whose result the survey assumes to be any number, whatever the ranges of their operands: products,
/// norms, lookups. The extremes of such operands need not be measured, unless one of them holds an infinity or NaN.
bool mixes(const OpInfo& info) {
  return is_product(info.family) || info.family == OpFamily::kNorm || info.family == OpFamily::kLookup;
}

bool has_bounded_input(const OpInfo& info) {
  return info.family != OpFamily::kNorm &&
         (std::isfinite(info.numerics.safe_low) || std::isfinite(info.numerics.safe_high));
}

bool holds_mask(const SurveyedOperand& operand) {
  if (operand.varies || !operand.given || !is_floating(operand.dtype)) return false;
  if (operand.observed && operand.observed->negative) return true;
  return operand.range.low <= kMaskedBelow && std::isfinite(operand.range.low);
}

std::uint32_t largest_word(const Observation& amax) { return std::max(amax.low, amax.wide); }
bool is_beyond_range(const Observation& amax, DType dtype) {
  return amax.low >= overflow_word(dtype) || amax.wide >= overflow_word(DType::f32);
}

}  // namespace

double Extremes::largest() const { return low <= high ? std::max(std::abs(low), std::abs(high)) : 0; }

Extremes extremes_of(const Tensor& tensor) {
  Extremes e;
  if (!tensor.defined() || tensor.numel() == 0) return e;
  const Tensor flat = tensor.on_host();
  dispatch_any(flat.dtype(), "preflight", [&]<class T>(TypeTag<T>) {
    const T* x = flat.data<T>();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      double value = 0;
      if constexpr (requires { x[i].to_float(); })
        value = x[i].to_float();
      else
        value = static_cast<double>(x[i]);
      if (!(std::abs(value) <= std::numeric_limits<double>::max())) {
        (std::isnan(value) ? e.nan : value > 0 ? e.positive : e.negative) = true;
        continue;
      }
      e.low = std::min(e.low, value);
      e.high = std::max(e.high, value);
    }
  });
  return e;
}

bool SurveyedOp::overflows() const { return is_beyond_range(amax, dtype); }

const SurveyedOp* Survey::source(const SurveyedOperand& operand) const {
  const SurveyedOp* source = producer(operand);
  while (source != nullptr && source->info->same_values && !source->operands.empty())
    source = producer(source->operands[0]);
  return source;
}

int Survey::producer_of(const Variable& input, const Tensor& read) const {
  if (input.dtype() != read.dtype())  // the policy has cast the input, so the producer is the cast
    if (const auto cast = held_.find(read.raw()); cast != held_.end()) return cast->second.first;
  if (const Node* node = input.state()->node.get()) {
    const auto found = positions_.find(node->tape_index());
    return found == positions_.end() ? -1 : found->second;
  }
  const auto found = held_.find(input.value().raw());
  return found == held_.end() ? -1 : found->second.first;
}

SurveyedOperand Survey::survey_operand(const OpInfo& info, const Variable& input, const Tensor& read) const {
  SurveyedOperand o{.given = true, .dtype = read.dtype(), .numel = read.numel()};
  o.varies = input.requires_grad();
  o.producer = producer_of(input, read);
  if (o.producer >= 0) {
    o.range = rounded(op(o.producer).range, read.dtype());
    const bool target = is_loss(info.family) && !o.varies;
    if (info.singular() || has_bounded_input(info) || target) o.observed = extremes_of(read);
    return o;
  }
  o.leaf = input.value().raw();
  if (input.state()->recomputed) return o;
  o.parameter = o.varies ? input.state()->name : "";
  if (!mixes(info) || largest_word(observe(read)) >= overflow_word(DType::f32)) {
    o.observed = extremes_of(read);
    if (o.observed->low <= o.observed->high) o.range = {o.observed->low, o.observed->high};
  }
  return o;
}

void Survey::before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) {
  next_ = {};
  next_.info = &call.info;
  next_.module = call.module_path;
  next_.tape_index = call.tape_index;
  next_.scalar = scalar_op(call);
  next_.eps = std::exchange(next_eps_, {});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    next_.operands.push_back(inputs[i].defined() ? survey_operand(call.info, inputs[i], read[i]) : SurveyedOperand{});
    next_.varies = next_.varies || next_.operands.back().varies;
  }
}

double Survey::eps_of(const OpCall&, double eps) {
  next_eps_ = eps;
  return eps;
}

void Survey::after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                           const Observation& amax) {
  if (outputs.empty()) return;
  SurveyedOp op = std::move(next_);
  op.dtype = outputs[0].dtype();
  op.numel = outputs[0].numel();
  op.varies = op.varies && call.info.differentiable;
  op.amax = amax.synchronized();
  measure(op, read, outputs);
  op.cancels = is_one_pass_variance(*this, op);
  op.masked_rows = count_masked_rows(op, call, read);
  if (const auto* p = call.params_of<ops::CrossEntropy>()) {
    const Extremes labels = extremes_of(read[1]);
    op.no_label = labels.low == labels.high && labels.low == static_cast<double>(p->ignore_index);
  }
  op.range = range_of_result(*this, op, call, outputs[0]);

  const auto [at, added] = positions_.try_emplace(call.tape_index, static_cast<int>(ops_.size()));
  if (added)
    ops_.push_back(std::move(op));
  else  // an op of a recomputed segment: backward runs it again, this time with a graph
    ops_[static_cast<std::size_t>(at->second)] = std::move(op);
  hold(ops_[static_cast<std::size_t>(at->second)], at->second, outputs);
}

void Survey::measure(SurveyedOp& op, std::span<const Tensor> read, const Tensors& outputs) {
  if (op.info->carries_masks)
    for (const SurveyedOperand& o : op.operands)
      op.masked = op.masked || holds_mask(o) || (o.producer >= 0 && this->op(o.producer).masked);
  const bool half_sum = op.info->family == OpFamily::kReduction &&
                        (is_half(op.dtype) || is_half(op.info->numerics.accumulate));
  const bool half_mask = op.masked && op.dtype == DType::f16;
  const bool broken = op.overflows();
  if (!half_sum && !half_mask && !broken) return;
  bool finite = true, finite_or_masked = true;
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (!op.operands[i].given) continue;
    if (!op.operands[i].observed) op.operands[i].observed = extremes_of(read[i]);
    const Extremes& e = *op.operands[i].observed;
    const bool legal_mask = op.info->numerics.non_finite == NonFinite::kMasks && !e.nan && !e.positive;
    finite = finite && (e.finite() || legal_mask);
    finite_or_masked = finite_or_masked && !e.nan && !e.positive;
  }
  op.result = extremes_of(outputs[0]);
  op.breaks = broken && (finite || (finite_or_masked && op.result->nan));
}

void Survey::hold(const SurveyedOp& op, int position, const Tensors& outputs) {
  for (const Tensor& output : outputs)
    if (output.bytes() <= kSmall || (!op.varies && grad_enabled())) held_[output.raw()] = {position, output};
}

void Survey::after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                            const Observation& amax) {
  const auto found = positions_.find(call.tape_index);
  if (found == positions_.end()) return;
  SurveyedOp& op = ops_[static_cast<std::size_t>(found->second)];
  if (op.info != &call.info) return;  // the call is a whole recomputed segment, which has the tape index of its last op
  op.gradients = amax.synchronized();
  for (const Tensor& g : gx)
    if (g.defined() && is_half(g.dtype())) op.gradient_dtype = g.dtype();
  if (!is_beyond_range(op.gradients, op.gradient_dtype)) return;
  bool finite = true;
  for (const Tensor& g : gy)
    if (g.defined()) finite = finite && largest_word(observe(g)) < overflow_word(DType::f32);
  op.backward_breaks = finite;
}

}  // namespace binade::amp
