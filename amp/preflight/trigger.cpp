#include "binade/amp/preflight/trigger.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "binade/core/ops/lists.h"

namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What a derivative is multiplied with: an element's share of a mean over some thousand.
constexpr double kShare = 0x1p-10;

bool finite(double x) { return std::isfinite(static_cast<float>(x)); }

/// What one op makes of `x` in each of its elements; of a softmax: of an entry that lies that far from the largest.
double apply(const SurveyedOp& op, double x) {
  double y = x;
  if (op.scalar) y = op.scalar->value(x);
  if (op.is("sum"))
    y = x * static_cast<double>(op.operands[0].numel) / static_cast<double>(std::max<std::int64_t>(op.numel, 1));
  if (op.is("softmax")) y = math::sigmoid(static_cast<float>(x));
  return rounded(y, op.dtype);
}

bool follows_from_one_number(const SurveyedOp& op) {
  if (op.scalar) return true;
  for (const std::string_view name : {"reshape", "permute", "cast", "slice", "mean", "sum", "max", "softmax"})
    if (op.is(name)) return true;
  return false;
}

/// 0, then numbers of both signs and growing magnitude, up to where `dtype` ends.
std::vector<double> numbers_to_try(DType dtype) {
  std::vector<double> numbers{0};
  for (double x = 0x1p-40; x < range_of(dtype).largest; x *= 1.25)
    for (const double sign : {1.0, -1.0}) numbers.push_back(rounded(sign * x, dtype));
  return numbers;
}

/// The smallest magnitude between `good` and `bad` for which `breaks` holds.
double narrow_down(double good, double bad, DType dtype, const std::function<bool(double)>& breaks) {
  for (int i = 0; i < 40; ++i) {
    const double middle = rounded((good + bad) / 2, dtype);
    if (middle == good || middle == bad) break;
    (breaks(middle) ? bad : good) = middle;
  }
  return bad;
}

/// Ops that come to an end: what they make of a number is news.
bool saturates(const SurveyedOp& op) { return op.is("sigmoid") || op.is("exp") || op.is("tanh") || op.is("softplus"); }

std::string in_module(const SurveyedOp& op) {
  return op.module.empty() ? fmt::format("'{}'", op.info->name) : fmt::format("'{}' in {}", op.info->name, op.module);
}

}  // namespace

bool breaks_at(const SurveyedOp& op, double x) {
  if (op.scalar) {
    if (!finite(op.scalar->value(x))) return true;
    return op.varies && !finite(op.scalar->gradient(x, kShare));
  }
  const auto at = static_cast<float>(x);
  if (op.is("div")) {
    const auto share = static_cast<float>(kShare);
    return !finite(ops::Div::value(1.0f, at, {})) ||
           (op.operands[1].varies && !finite(ops::Div::gradient_b(1.0f, at, share, {})));
  }
  if (op.is("bce")) return !finite(ops::Bce::value(at, 0.5f, {}));
  return x == op.info->numerics.pole;
}

const SurveyedOperand& operand_at_pole(const SurveyedOp& op) { return op.operands[op.is("div") ? 1 : 0]; }

std::optional<double> reachable_pole(const SurveyedOp& op) {
  const ValueRange& range = operand_at_pole(op).range;
  for (const double x : {op.info->numerics.pole, range.low, 1.0, range.high, std::max(range.low, -1.0), 2.0})
    if (std::isfinite(x) && range.contains(x) && breaks_at(op, x)) return x;
  return std::nullopt;
}

OperandChain::OperandChain(const Survey& survey, const SurveyedOperand& operand) {
  const SurveyedOperand* at = &operand;
  mixed_ = survey.producer(*at);
  while (mixed_ != nullptr && follows_from_one_number(*mixed_)) {
    ops_.push_back(mixed_);
    at = &mixed_->operands[0];
    mixed_ = survey.producer(*at);
  }
  std::ranges::reverse(ops_);
  range_ = at->range;
  dtype_ = is_floating(at->dtype) ? at->dtype : DType::f32;
}

const SurveyedOp* OperandChain::find(std::string_view name) const {
  const auto found = std::ranges::find_if(ops_, [&](const SurveyedOp* op) { return op->is(name); });
  return found == ops_.end() ? nullptr : *found;
}

double OperandChain::follow(double x) const {
  for (const SurveyedOp* op : ops_) x = apply(*op, x);
  return x;
}

Trigger OperandChain::trigger(const SurveyedOp& op, double pole) const {
  const auto breaks = [&](double x) { return range_.contains(x) && breaks_at(op, follow(x)); };
  double good[2] = {0, 0};  // the largest magnitude so far that does no harm, by sign
  for (const double x : numbers_to_try(dtype_)) {
    if (!breaks(x)) {
      good[x < 0 ? 1 : 0] = x;
      continue;
    }
    const double smallest = x == 0 ? 0 : narrow_down(good[x < 0 ? 1 : 0], x, dtype_, breaks);
    return {source(), {smallest}, dtype_, follow(smallest), describe(op, smallest)};
  }
  return {fmt::format("the operand of {}", in_module(op)),
          {pole},
          operand_at_pole(op).dtype,
          pole,
          fmt::format("it can become {}", pole)};
}

std::string OperandChain::source() const {
  if (mixed_ != nullptr) return fmt::format("the result of {}", in_module(*mixed_));
  return ops_.empty() ? "a leaf" : fmt::format("the input of {}", in_module(*ops_.front()));
}

std::string OperandChain::describe(const SurveyedOp& op, double x) const {
  std::vector<std::string> steps;
  double at = x;
  for (const SurveyedOp* step : ops_) {
    const double next = apply(*step, at), exact = step->scalar ? step->scalar->value(at) : next;
    if (step->is("softmax"))
      steps.push_back(
          fmt::format("softmax of a logit {:.6g} below the largest is {:.6g} in {}", -at, next, name_of(step->dtype)));
    else if (saturates(*step))
      steps.push_back(fmt::format("{} of {:.6g} is {:.6g} in {}", step->info->name, at, next, name_of(step->dtype)));
    else if (next == 0 && exact != 0)
      steps.push_back(fmt::format("{:.6g} rounds to 0 in {}", exact, name_of(step->dtype)));
    at = next;
  }
  const bool divides = op.is("div") || op.is("scalar_div");
  steps.push_back(fmt::format("{} {:.6g}", divides ? "division by" : fmt::format("{} of", op.info->name), at));
  return fmt::format("{}", fmt::join(steps, ", "));
}

}  // namespace binade::amp
