#include "binade/amp/preflight/trigger.h"

#include <fmt/ranges.h>

#include <cmath>

#include "binade/amp/text.h"
#include "binade/core/ops/formulas.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/slice.h"
#include "binade/core/ops/softmax.h"

namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The incoming gradient with which derivatives are checked: the gradient of one element of a mean over 1024 elements.
constexpr double kIncomingGradient = 0x1p-10;

bool finite(double x) { return std::isfinite(static_cast<float>(x)); }

/// Returns the result of an op whose operand is `x` in every element. For a softmax, returns the result of one of two
/// entries, whose logit is `x` larger than the other logit.
double apply(const SurveyedOp& op, double x) {
  double y = x;
  if (op.scalar) y = op.scalar->value(x);
  if (op.is<ops::Sum>())
    y = x * static_cast<double>(op.operands[0].numel) / static_cast<double>(std::max<std::int64_t>(op.numel, 1));
  if (op.is<ops::Softmax>()) y = math::sigmoid(static_cast<float>(x));
  return rounded(y, op.dtype);
}

/// True if apply() can compute the op: an operand with the same number in all elements gives a result with the same
/// number in all elements.
bool maps_one_number(const SurveyedOp& op) {
  if (op.operands.empty()) return false;
  return op.scalar || op.info->same_values || op.is<ops::Slice, ops::Mean, ops::Sum, ops::Max, ops::Softmax>();
}

/// Returns 0, then numbers of both signs in order of magnitude, up to the largest of `dtype`.
std::vector<double> numbers_to_try(DType dtype) {
  std::vector<double> numbers{0};
  for (double x = 0x1p-40; x < range_of(dtype).largest; x *= 1.25)
    for (const double sign : {1.0, -1.0}) numbers.push_back(rounded(sign * x, dtype));
  return numbers;
}

/// Returns, by bisection, the number between `good` and `bad` for which `breaks` is true and that is nearest to `good`.
double narrow_down(double good, double bad, DType dtype, const std::function<bool(double)>& breaks) {
  for (int i = 0; i < 40; ++i) {
    const double middle = rounded((good + bad) / 2, dtype);
    if (middle == good || middle == bad) break;
    (breaks(middle) ? bad : good) = middle;
  }
  return bad;
}

}  // namespace

bool breaks_at(const SurveyedOp& op, const OperandValue& at) {
  if (op.scalar) {
    if (!finite(op.scalar->value(at.x))) return true;
    return op.varies && !finite(op.scalar->gradient(at.x, kIncomingGradient));
  }
  const bool varies = op.operands[at.operand].varies;
  const auto x = static_cast<float>(at.x);
  if (op.is<ops::Div>() && at.operand == 1) {
    const auto gy = static_cast<float>(kIncomingGradient);
    return !finite(ops::Div::value(1.0f, x, {})) || (varies && !finite(ops::Div::gradient_b(1.0f, x, gy, {})));
  }
  if (op.is<ops::Bce>() && at.operand == 0) return !finite(ops::Bce::value(x, 0.5f, {}));
  return std::ranges::any_of(op.info->stated_singularities(), [&](const Singularity& s) {
    return static_cast<std::size_t>(s.input) == at.operand && s.at == at.x && (varies || !s.derivative_only);
  });
}

std::optional<OperandValue> reachable_singularity(const SurveyedOp& op) {
  for (const Singularity& s : op.info->stated_singularities()) {
    const auto operand = static_cast<std::size_t>(s.input);
    if (operand >= op.operands.size() || !op.operands[operand].given) continue;
    const ValueRange& range = op.operands[operand].range;
    for (const double x : {s.at, range.low, 1.0, range.high, std::max(range.low, -1.0), 2.0})
      if (std::isfinite(x) && range.contains(x) && breaks_at(op, {operand, x})) return OperandValue{operand, x};
  }
  return std::nullopt;
}

OperandChain::OperandChain(const Survey& survey, const SurveyedOperand& operand) {
  const SurveyedOperand* at = &operand;
  source_ = survey.producer(*at);
  while (source_ != nullptr && maps_one_number(*source_)) {
    ops_.push_back(source_);
    at = &source_->operands[0];
    source_ = survey.producer(*at);
  }
  std::ranges::reverse(ops_);
  range_ = at->range;
  dtype_ = is_floating(at->dtype) ? at->dtype : DType::f32;
}

double OperandChain::operand_at(double x) const {
  for (const SurveyedOp* op : ops_) x = apply(*op, x);
  return x;
}

Trigger OperandChain::trigger(const SurveyedOp& op, const OperandValue& broken) const {
  const auto breaks = [&](double x) { return range_.contains(x) && breaks_at(op, {broken.operand, operand_at(x)}); };
  double good[2] = {0, 0};  // the largest harmless number so far, for each sign
  for (const double x : numbers_to_try(dtype_)) {
    if (!breaks(x)) {
      good[x < 0 ? 1 : 0] = x;
      continue;
    }
    const double smallest = x == 0 ? 0 : narrow_down(good[x < 0 ? 1 : 0], x, dtype_, breaks);
    return {source(), {smallest}, dtype_, operand_at(smallest), describe(op, smallest)};
  }
  return {fmt::format("the operand of {}", quoted_op(op.info->name, op.module)),
          {broken.x},
          op.operands[broken.operand].dtype,
          broken.x,
          fmt::format("it can become {}", broken.x)};
}

std::string OperandChain::source() const {
  if (source_ != nullptr) return fmt::format("the result of {}", quoted_op(source_->info->name, source_->module));
  return ops_.empty() ? "a leaf"
                      : fmt::format("the input of {}", quoted_op(ops_.front()->info->name, ops_.front()->module));
}

std::string OperandChain::describe(const SurveyedOp& op, double x) const {
  std::vector<std::string> steps;
  double at = x;
  for (const SurveyedOp* step : ops_) {
    const double next = apply(*step, at), exact = step->scalar ? step->scalar->value(at) : next;
    if (step->is<ops::Softmax>())
      steps.push_back(
          fmt::format("softmax of a logit {:.6g} below the largest is {:.6g} in {}", -at, next, name_of(step->dtype)));
    else if (step->info->saturates)
      steps.push_back(fmt::format("{} of {:.6g} is {:.6g} in {}", step->info->name, at, next, name_of(step->dtype)));
    else if (next == 0 && exact != 0)
      steps.push_back(fmt::format("{:.6g} rounds to 0 in {}", exact, name_of(step->dtype)));
    at = next;
  }
  const bool divides = op.is<ops::Div, ops::ScalarDiv>();
  steps.push_back(fmt::format("{} {:.6g}", divides ? "division by" : fmt::format("{} of", op.info->name), at));
  return fmt::format("{}", fmt::join(steps, ", "));
}

}  // namespace binade::amp
