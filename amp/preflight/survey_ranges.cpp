#include <algorithm>
#include <cmath>
#include <optional>

#include "binade/amp/preflight/survey.h"
#include "binade/core/ops/attention.h"
#include "binade/core/ops/binary.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/softmax.h"
#include "binade/core/ops/unary.h"
#include "binade/core/ops/where.h"

namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Returns the range of f(x) for an elementwise op f over the range `x`. Evaluates f at both ends of the range and at
/// 0, where even functions and 1 / x are not monotonic.
ValueRange image_of(const ScalarOp& f, ValueRange x) {
  if (x.low < 0 && x.high >= 0 && std::isnan(f.value(std::max(x.low, -1.5))))
    x.low = 0;  // sqrt and log are undefined below 0
  const double at_low = f.value(x.low), at_high = f.value(x.high);
  const double at_zero = x.contains(0) ? f.value(0) : at_high;
  if (std::isnan(at_low) || std::isnan(at_high) || (x.low < 0 && x.high > 0 && std::isinf(at_zero))) return {};
  ValueRange y{std::min({at_low, at_high, at_zero}), std::max({at_low, at_high, at_zero})};
  if (x.peaks > 0 && std::isfinite(x.high) && at_high == y.high) y.peaks = x.peaks;
  return y;
}

bool same_value(const SurveyedOperand& a, const SurveyedOperand& b) {
  return a.producer >= 0 ? a.producer == b.producer : b.producer < 0 && a.leaf == b.leaf;
}

/// If the op is x - max(x) along an axis, returns the number of maxima; returns 0 for any other op.
std::int64_t count_subtracted_maxima(const Survey& survey, const SurveyedOp& op) {
  const SurveyedOp* largest = survey.source(op.operands[1]);
  if (largest == nullptr || !largest->is<ops::Max>() || !same_value(largest->operands[0], op.operands[0])) return 0;
  return largest->numel;
}

/// If the op computes x^2 (as square, power or product), returns its operand x; otherwise null.
const SurveyedOperand* squared(const SurveyedOp* op) {
  if (op == nullptr) return nullptr;
  const bool power = op->is<ops::Pow>() && op->scalar->value(3) == 9 && op->scalar->value(-3) == 9;
  const bool times = op->is<ops::Mul>() && same_value(op->operands[0], op->operands[1]);
  return op->is<ops::Square>() || power || times ? &op->operands[0] : nullptr;
}

/// If the op computes mean(x), perhaps as a scaled sum, returns its operand x; otherwise null.
const SurveyedOperand* averaged(const Survey& survey, const SurveyedOp* op) {
  if (op != nullptr && op->is<ops::DivScalar, ops::MulScalar>()) {
    op = survey.source(op->operands[0]);
    return op != nullptr && op->is<ops::Sum>() ? &op->operands[0] : nullptr;
  }
  return op != nullptr && op->is<ops::Mean>() ? &op->operands[0] : nullptr;
}

/// Returns the result range that the op's contract (OpInfo::range) gives for the ranges of its operands.
ValueRange stated_range(const SurveyedOp& op, const OpCall& call) {
  std::vector<RangeInputs::Input> inputs;
  for (const SurveyedOperand& o : op.operands)
    inputs.push_back(o.given ? RangeInputs::Input{o.range, o.numel} : RangeInputs::Input{});
  return op.info->range({inputs, op.numel}, call.params);
}

/// Returns the range of x * x and x - max(x), whose operands depend on each other; std::nullopt for other ops.
std::optional<ValueRange> range_of_related(const Survey& survey, const SurveyedOp& op) {
  if (op.is<ops::Mul>() && same_value(op.operands[0], op.operands[1])) {
    const ValueRange& x = op.operands[0].range;
    const double ends[] = {x.low * x.low, x.high * x.high};
    return ValueRange{x.contains(0) ? 0 : std::min(ends[0], ends[1]), std::max(ends[0], ends[1])};
  }
  if (op.is<ops::Sub>())
    if (const std::int64_t groups = count_subtracted_maxima(survey, op); groups > 0)
      return ValueRange{-kInfinity, 0, groups};
  return std::nullopt;
}

/// Returns the range of where(condition, a, b). If one of a and b is constant, it usually guards against a singularity,
/// so that the other one does not reach its whole range; then the range of the observed results is used in its place.
ValueRange range_of_where(const SurveyedOp& op, const Tensor& output) {
  const SurveyedOperand &a = op.operands[1], &b = op.operands[2];
  if (a.varies == b.varies) return hull(a.range, b.range);
  const Extremes seen = extremes_of(output);
  const ValueRange& constant = a.varies ? b.range : a.range;
  return hull({seen.low, seen.high}, constant);
}

/// True if `count` entries, `stride` apart from `begin` on, are -inf. Large negative constants do not count, because
/// softmax is still defined for them.
bool all_masked(const Tensor& x, std::int64_t begin, std::int64_t count, std::int64_t stride) {
  return dispatch_float(x.dtype(), "preflight", [&]<class T>(TypeTag<T>) {
    const T* entries = x.data<T>() + begin;
    for (std::int64_t i = 0; i < count; ++i)
      if (load(entries[i * stride]) != -kInfinity) return false;
    return count > 0;
  });
}

std::int64_t masked_rows_of_softmax(const Tensor& given, int axis) {
  const Tensor x = given.on_host();
  const int at = axis < 0 ? axis + x.rank() : axis;
  std::int64_t inner = 1, rows = 0;
  for (int d = at + 1; d < x.rank(); ++d) inner *= x.dim(d);
  const std::int64_t count = x.dim(at), step = count * inner;
  for (std::int64_t begin = 0; begin < x.numel(); begin += step)
    for (std::int64_t i = 0; i < inner; ++i) rows += all_masked(x, begin + i, count, inner) ? 1 : 0;
  return rows;
}

/// Returns the number of rows of an attention mask without a visible key. If causal, query t of T attends only to the
/// first t + 1 + S - T of S keys.
std::int64_t masked_rows_of_attention(const Tensor& given, bool causal) {
  const Tensor mask = given.on_host();
  const std::int64_t keys = mask.shape().cols(), queries = mask.rank() > 1 ? mask.dim(mask.rank() - 2) : 1;
  std::int64_t rows = 0;
  for (std::int64_t row = 0; row < mask.shape().rows(); ++row) {
    const std::int64_t visible = causal ? row % queries + 1 + keys - queries : keys;
    rows += all_masked(mask, row * keys, std::min(visible, keys), 1) ? 1 : 0;
  }
  return rows;
}

/// Returns the result range that follows from the op's contract; std::nullopt if it states neither range nor family.
std::optional<ValueRange> derived_range(const Survey& survey, const SurveyedOp& op, const OpCall& call,
                                        const Tensor& output) {
  if (op.operands.empty() || !op.operands[0].given) return std::nullopt;
  const ValueRange& x = op.operands[0].range;
  if (op.scalar) return image_of(*op.scalar, x);
  if (op.info->same_values) return x;
  if (op.is<ops::Where>()) return range_of_where(op, output);
  if (const std::optional<ValueRange> related = range_of_related(survey, op)) return related;
  if (op.info->range != nullptr) return stated_range(op, call);
  if (op.info->family == OpFamily::kDistanceLoss) return ValueRange{.low = 0};
  if (op.info->family != OpFamily::kOther) return ValueRange{};
  return std::nullopt;
}

}  // namespace

bool is_one_pass_variance(const Survey& survey, const SurveyedOp& op) {
  if (!op.is<ops::Sub>() || !op.operands[0].given || !op.operands[1].given) return false;
  const SurveyedOperand* squares = averaged(survey, survey.source(op.operands[0]));
  const SurveyedOperand* mean = squared(survey.source(op.operands[1]));
  if (squares == nullptr || mean == nullptr) return false;
  const SurveyedOperand* x = squared(survey.source(*squares));
  const SurveyedOperand* same = averaged(survey, survey.source(*mean));
  return x != nullptr && same != nullptr && same_value(*x, *same);
}

std::int64_t count_masked_rows(const SurveyedOp& op, const OpCall& call, std::span<const Tensor> read) {
  if (const auto* p = call.params_of<ops::Attention>())
    return op.operands.size() > 3 && op.operands[3].given ? masked_rows_of_attention(read[3], p->causal) : 0;
  if (!op.is<ops::Softmax, ops::LogSoftmax>()) return 0;
  if (!op.operands[0].given || read[0].numel() == 0) return 0;
  const auto* softmax = call.params_of<ops::Softmax>();
  const int axis = (softmax != nullptr ? softmax : call.params_of<ops::LogSoftmax>())->axis;
  return masked_rows_of_softmax(read[0], axis);
}

ValueRange range_of_result(const Survey& survey, const SurveyedOp& op, const OpCall& call, const Tensor& output) {
  if (const std::optional<ValueRange> derived = derived_range(survey, op, call, output))
    return rounded(*derived, op.dtype);
  // If the op states no range, the observed values are the only information.
  const Extremes seen = extremes_of(output);
  return seen.low <= seen.high ? ValueRange{seen.low, seen.high} : ValueRange{};
}

}  // namespace binade::amp
