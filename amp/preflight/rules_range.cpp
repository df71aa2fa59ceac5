#include <algorithm>
#include <cmath>
#include <set>

#include "binade/amp/preflight/rules.h"
#include "binade/amp/suggestions.h"
#include "binade/amp/watch/telemetry.h"
#include "binade/core/ops/reduce.h"
#include "binade/core/ops/unary.h"

namespace binade::amp {
namespace {

constexpr double kLittleHeadroom = 2;  // a headroom of fewer binades is reported

double largest_operand(const SurveyedOp& op) {
  double largest = 0;
  for (const SurveyedOperand& o : op.operands)
    if (o.observed) largest = std::max(largest, o.observed->largest());
  return largest;
}

/// Returns the largest x for which exp(x) is in the range of `dtype`.
double end_of_exp(DType dtype) { return std::log(range_of(dtype).largest); }

PreflightFinding describe_range(const SurveyedOp& op, double binades) {
  const double largest = optim::magnitude_of(std::max(op.amax.low, op.amax.wide));
  PreflightFinding f = finding_at(op, "headroom", op.breaks ? Severity::kMeasured : Severity::kPossible);
  f.what = op.breaks ? fmt::format("its result is beyond the range of {} ({:.4g}) in the measured batch",
                                   name_of(op.dtype), range_of(op.dtype).largest)
                     : fmt::format("its largest result {:.4g} is {:.1f} binades below the end of {}", largest, binades,
                                   name_of(op.dtype));
  f.advice = fmt::format("compute it in f32 ({}), or keep its input smaller with a norm before it",
                         suggest_dtype(op.module.empty() ? op.info->name : op.module, DType::f32));
  if (op.is<ops::Exp>()) {
    const double end = end_of_exp(op.dtype);
    f.rule = "exp-range";
    f.trigger = value_trigger("the operand", std::nextafter(static_cast<float>(end) * 1.001f, 1e9f), DType::f32, end,
                              fmt::format("exp of {:.4g} and more is inf in {}", end, name_of(op.dtype)));
    f.advice = "subtract the largest operand before exp, or clamp it";
  } else if (!op.breaks) {
    f.trigger = value_trigger("its operands", std::exp2(binades), op.dtype, largest,
                              fmt::format("operands whose product is {:.3g} times as large give inf in {}",
                                          std::exp2(binades), name_of(op.dtype)));
  } else {
    f.trigger = value_trigger("its operands", 1, op.dtype, largest_operand(op), "the measured batch gives inf");
  }
  return f;
}

}  // namespace

void find_little_headroom(const Inspection& in, Findings& findings) {
  std::set<const SurveyedOp*>
      near;  // ops with little headroom, including ops that read the results of others in the set
  for (const SurveyedOp& op : in.survey.ops()) {
    if (op.masked || !op.amax.any()) continue;
    const bool passed_on = std::ranges::any_of(op.operands, [&](const SurveyedOperand& o) {
      return near.contains(in.survey.producer(o));
    });
    const double binades = headroom_of(op.amax, is_half(op.dtype) ? op.dtype : DType::f16);
    if (passed_on) {
      if (op.overflows() || binades < kLittleHeadroom) near.insert(&op);
      continue;
    }
    if (!(binades < kLittleHeadroom) || (op.overflows() && !op.breaks)) continue;
    // Other rules report non-finite results at singularities, of masks and of ignored labels.
    if (op.breaks && (op.info->singular() || op.no_label || op.result->nan)) continue;
    near.insert(&op);
    if (!has_finding(findings, op)) findings.push_back(describe_range(op, binades));
  }
}

void find_long_sums(const Inspection& in, Findings& findings) {
  for (const SurveyedOp& op : in.survey.ops()) {
    if (op.info->family != OpFamily::kReduction || op.operands.empty() || !op.operands[0].observed || op.numel == 0)
      continue;
    const DType accumulate = op.info->numerics.accumulate;
    const DType held = is_half(accumulate) ? accumulate : op.is<ops::Mean>() ? DType::f32 : op.dtype;
    const std::int64_t terms = op.operands[0].numel / op.numel;
    const double largest = op.operands[0].observed->largest(), reach = static_cast<double>(terms) * largest;
    if (!is_half(held) || !(reach > range_of(held).largest) || op.operands[0].observed->negative) continue;
    PreflightFinding f = finding_at(op, "long-sum", op.breaks ? Severity::kMeasured : Severity::kPossible);
    f.what = fmt::format("{} terms of up to {:.4g} add up to {:.4g}, beyond the range of {}", terms, largest, reach,
                         name_of(held));
    f.advice = fmt::format("hold the sum in f32 ({}), or take a mean", suggest_dtype(op.info->name, DType::f32));
    f.trigger = value_trigger("each of its terms", largest, op.operands[0].dtype, largest,
                              fmt::format("{} terms of {:.4g} give inf in {}", terms, largest, name_of(held)));
    findings.push_back(std::move(f));
  }
}

}  // namespace binade::amp
