#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>

#include "binade/amp/preflight/survey.h"
#include "binade/core/ops/attention.h"
#include "binade/core/ops/batch_norm.h"
#include "binade/core/ops/dropout.h"
#include "binade/core/ops/group_norm.h"
#include "binade/core/ops/linear.h"
#include "binade/core/ops/softmax.h"

namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr ValueRange kPositive{0, kInfinity};

/// The image of `x` under an elementwise op: ends, and the origin, where even functions turn and poles lie.
ValueRange through(const ScalarOp& f, ValueRange x) {
  if (x.low < 0 && x.high >= 0 && std::isnan(f.value(std::max(x.low, -1.5)))) x.low = 0;  // sqrt, log: no such result
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

/// x of x - max(x): how many groups there are; 0 where it is something else.
std::int64_t groups_below_their_largest(const Survey& survey, const SurveyedOp& op) {
  const SurveyedOp* largest = survey.source(op.operands[1]);
  if (largest == nullptr || !largest->is("max") || !same_value(largest->operands[0], op.operands[0])) return 0;
  return largest->numel;
}

/// x of x^2, however it was written.
const SurveyedOperand* squared(const SurveyedOp* op) {
  if (op == nullptr) return nullptr;
  const bool power = op->is("pow") && op->scalar->value(3) == 9 && op->scalar->value(-3) == 9;
  const bool times = op->is("mul") && same_value(op->operands[0], op->operands[1]);
  return op->is("square") || power || times ? &op->operands[0] : nullptr;
}

/// x of mean(x), also as a sum that is divided.
const SurveyedOperand* averaged(const Survey& survey, const SurveyedOp* op) {
  if (op != nullptr && (op->is("div_scalar") || op->is("mul_scalar"))) {
    op = survey.source(op->operands[0]);
    return op != nullptr && op->is("sum") ? &op->operands[0] : nullptr;
  }
  return op != nullptr && op->is("mean") ? &op->operands[0] : nullptr;
}

ValueRange range_of_pair(const Survey& survey, const SurveyedOp& op) {
  const SurveyedOperand &a = op.operands[0], &b = op.operands[1];
  if (op.is("mul") && same_value(a, b)) {
    const double ends[] = {a.range.low * a.range.low, a.range.high * a.range.high};
    return {a.range.contains(0) ? 0 : std::min(ends[0], ends[1]), std::max(ends[0], ends[1])};
  }
  if (op.is("sub"))
    if (const std::int64_t groups = groups_below_their_largest(survey, op); groups > 0) return {-kInfinity, 0, groups};
  return combine(op.info->name, a.range, b.range);
}

ValueRange range_of_reduction(const SurveyedOp& op) {
  const SurveyedOperand& x = op.operands[0];
  if (op.is("max")) return x.range.peaks == op.numel ? ValueRange{x.range.high, x.range.high} : hull(x.range, x.range);
  const std::int64_t terms = op.numel > 0 ? x.numel / op.numel : 0;
  const ValueRange sum = range_of_sum(x.range, terms, op.numel);
  if (op.is("sum")) return sum;
  return {sum.low / static_cast<double>(terms), sum.high / static_cast<double>(terms)};
}

/// A branch of constants is how people keep an operand away from a pole: there the measured values are believed.
ValueRange range_of_where(const SurveyedOp& op, const Tensor& output) {
  const SurveyedOperand &a = op.operands[1], &b = op.operands[2];
  if (a.varies == b.varies) return hull(a.range, b.range);
  const Extremes seen = extremes_of(output);
  const ValueRange& constant = a.varies ? b.range : a.range;
  return hull({seen.low, seen.high}, constant);
}

ValueRange range_of_all(const SurveyedOp& op) {
  ValueRange all = op.operands[0].range;
  for (const SurveyedOperand& part : op.operands) all = hull(all, part.range);
  return all;
}

bool ends_in_relu(const OpCall& call) {
  if (const auto* p = call.params_of<ops::Linear>()) return p->activation == Activation::kRelu;
  if (const auto* p = call.params_of<ops::BatchNorm>()) return p->relu;
  if (const auto* p = call.params_of<ops::GroupNorm>()) return p->relu;
  return false;
}

/// A row of `count` entries `stride` apart that are all -inf. Large negative numbers are another matter: they leave an
/// even share for each.
bool masked_whole(const Tensor& x, std::int64_t begin, std::int64_t count, std::int64_t stride) {
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
    for (std::int64_t i = 0; i < inner; ++i) rows += masked_whole(x, begin + i, count, inner) ? 1 : 0;
  return rows;
}

/// Causal: query t of T sees the first t + 1 + S - T of S keys.
std::int64_t masked_rows_of_attention(const Tensor& given, bool causal) {
  const Tensor mask = given.on_host();
  const std::int64_t keys = mask.shape().cols(), queries = mask.rank() > 1 ? mask.dim(mask.rank() - 2) : 1;
  std::int64_t rows = 0;
  for (std::int64_t row = 0; row < mask.shape().rows(); ++row) {
    const std::int64_t visible = causal ? row % queries + 1 + keys - queries : keys;
    rows += masked_whole(mask, row * keys, std::min(visible, keys), 1) ? 1 : 0;
  }
  return rows;
}

bool one_of(const SurveyedOp& op, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, std::string_view(op.info->name)) != names.end();
}

/// What follows from the op's maths; nothing for ops that are not known here.
std::optional<ValueRange> derived_range(const Survey& survey, const SurveyedOp& op, const OpCall& call,
                                        const Tensor& output) {
  if (op.operands.empty() || !op.operands[0].given) return std::nullopt;
  const ValueRange& x = op.operands[0].range;
  if (op.scalar) return through(*op.scalar, x);
  if (one_of(op, {"add", "sub", "mul", "div", "maximum", "minimum"})) return range_of_pair(survey, op);
  if (one_of(op, {"reshape", "permute", "cast"})) return x;
  if (one_of(op, {"slice", "max_pool2d", "upsample"})) return hull(x, x);
  if (op.is("avg_pool2d")) return hull(x, {0, 0});  // padding counts
  if (one_of(op, {"sum", "mean", "max"})) return range_of_reduction(op);
  if (op.is("where")) return range_of_where(op, output);
  if (op.is("concat")) return range_of_all(op);
  if (op.is("softmax")) return ValueRange{0, 1};
  if (op.is("log_softmax")) return ValueRange{-kInfinity, 0};
  if (const auto* p = call.params_of<ops::Dropout>()) {
    const double factor = 1 / (1 - p->p);
    return hull(combine("mul", x, {factor, factor}), {0, 0});
  }
  if (one_of(op, {"cross_entropy", "mse", "l1", "huber", "bce", "bce_with_logits"}) || ends_in_relu(call))
    return kPositive;
  if (op.info->family != OpFamily::kOther || op.is("embedding")) return ValueRange{};
  return std::nullopt;
}

}  // namespace

bool is_one_pass_variance(const Survey& survey, const SurveyedOp& op) {
  if (!op.is("sub") || !op.operands[0].given || !op.operands[1].given) return false;
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
  if (!op.is("softmax") && !op.is("log_softmax")) return 0;
  // Logits without a mask are not worth a look at every row.
  if (!op.operands[0].given || read[0].numel() == 0) return 0;
  const auto* softmax = call.params_of<ops::Softmax>();
  const auto* log_softmax = call.params_of<ops::LogSoftmax>();
  const int axis = softmax != nullptr ? softmax->axis : log_softmax != nullptr ? log_softmax->axis : -1;
  return masked_rows_of_softmax(read[0], axis);
}

ValueRange range_of_result(const Survey& survey, const SurveyedOp& op, const OpCall& call, const Tensor& output) {
  if (const std::optional<ValueRange> derived = derived_range(survey, op, call, output))
    return rounded(*derived, op.dtype);
  // A user's op: nothing is known of its maths but what it gave.
  const Extremes seen = extremes_of(output);
  return seen.low <= seen.high ? ValueRange{seen.low, seen.high} : ValueRange{};
}

}  // namespace binade::amp
