#include <algorithm>
#include <cmath>
#include <map>

#include "binade/amp/preflight/rules.h"
#include "binade/amp/preflight/trigger.h"
#include "binade/core/ops/formulas.h"
#include "binade/core/ops/softmax.h"

namespace binade::amp {
namespace {

std::string kind_of(const SurveyedOp& op) {
  if (op.is<ops::Div, ops::ScalarDiv>()) return "division";
  return op.info->name;
}

/// The rule and the texts of a finding. They depend on the ops that computed the singular operand.
struct Origin {
  std::string rule;
  std::string what;
  std::string advice;
};

std::string smallest_eps(DType dtype) { return dtype == DType::f16 ? "1e-4" : "1e-7"; }

Origin origin_of(const SurveyedOp& op, const Survey& survey, const OperandChain& chain, const OperandValue& broken) {
  const std::string kind = kind_of(op);
  const SurveyedOperand& operand = op.operands[broken.operand];
  const bool divides = op.is<ops::Div, ops::ScalarDiv>(), log = op.is<ops::Log>(), bce = op.is<ops::Bce>();
  if (const SurveyedOp* sigmoid = chain.find<ops::Sigmoid>(); sigmoid != nullptr && (bce || log))
    return {kind + "-after-sigmoid",
            fmt::format("a sigmoid rounds to 0 and to 1 in {}, where {} is infinite", name_of(sigmoid->dtype), kind),
            "use bce_with_logits on the sigmoid's input, or -softplus(-x) for log(sigmoid(x))"};
  if (const SurveyedOp* softmax = chain.find<ops::Softmax>(); softmax != nullptr && log)
    return {"log-after-softmax",
            fmt::format("a softmax rounds to 0 in {}, where log is infinite", name_of(softmax->dtype)),
            "use log_softmax, or cross_entropy on the logits"};
  for (const SurveyedOp* step = survey.producer(operand); step != nullptr && !step->operands.empty();
       step = survey.producer(step->operands[0])) {
    if (step->cancels)
      return {
          "one-pass-variance",
          fmt::format("mean of squares minus square of mean cancels: it can come out as 0 or below it, where {} has "
                      "no finite {}",
                      kind, operand.range.low < 0 ? "value" : "derivative"),
          "use the mean of (x - mean(x))^2, and an eps inside"};
    if (!step->scalar && !step->info->same_values) break;
  }
  if (!op.scalar && !divides && !bce)
    return {"pole", fmt::format("its operand can be {:g}, a singularity that the op states", broken.x),
            fmt::format("keep the operand away from {:g}", broken.x)};
  if (divides)
    return {"division-pole", "nothing keeps the divisor away from 0",
            fmt::format("add an eps of at least {} to the divisor, or take maximum(divisor, eps)",
                        smallest_eps(operand.dtype))};
  if (operand.range.low < 0)
    return {kind + "-pole", fmt::format("nothing keeps its operand above 0: {} is not finite there", kind),
            fmt::format("clamp the operand to at least {}", smallest_eps(operand.dtype))};
  const bool derivative = std::isfinite(op.scalar ? op.scalar->value(0) : 0) && !log && !bce;
  return {kind + "-pole",
          fmt::format("its operand can be 0, where the {} is infinite", derivative ? "derivative" : "value"),
          fmt::format("add an eps of at least {} inside", smallest_eps(operand.dtype))};
}

/// True if the measured batch has an operand value for which the op's result is not finite.
bool measured(const SurveyedOp& op, std::size_t operand) {
  const std::optional<Extremes>& observed = op.operands[operand].observed;
  return observed && observed->low <= observed->high &&
         (breaks_at(op, {operand, observed->low}) || breaks_at(op, {operand, observed->high}));
}

/// Returns two neighboring f32 values. Their variance, computed in f32 as mean of squares minus square of mean, comes
/// out so far below 0 that it stays negative after `eps` is added.
std::optional<std::vector<double>> row_that_cancels(double eps) {
  for (float scale = 1; scale < 0x1p20f; scale *= 2)
    for (int k = 0; k < 64; ++k) {
      const float a = scale * (1 + static_cast<float>(k) * 0.013f), b = std::nextafter(a, 2 * a);
      const float squares = (a * a + b * b) / 2, mean = (a + b) / 2;
      if (static_cast<double>(squares - mean * mean) + eps < 0) return std::vector<double>{a, b};
    }
  return std::nullopt;
}

Trigger trigger_of(const SurveyedOp& op, const OperandChain& chain, const Origin& origin, const OperandValue& broken) {
  if (origin.rule == "one-pass-variance") {
    const double eps = chain.operand_at(0);
    if (const auto row = row_that_cancels(std::isfinite(eps) ? std::max(eps, 0.0) : 0))
      return {"the row whose variance is taken", *row, DType::f32, broken.x,
              fmt::format("the row ({:.9g}, {:.9g}) has a variance below 0 in f32", (*row)[0], (*row)[1])};
  }
  return chain.trigger(op, broken);
}

}  // namespace

PreflightFinding finding_at(const SurveyedOp& op, std::string rule, Severity severity) {
  PreflightFinding finding{.rule = std::move(rule), .severity = severity, .module = op.module};
  finding.tape_index = op.tape_index;
  finding.op = op.info->name;
  return finding;
}

bool has_finding(const Findings& findings, const SurveyedOp& op) {
  return std::ranges::find(findings, op.tape_index, &PreflightFinding::tape_index) != findings.end();
}

void find_singularities(const Inspection& in, Findings& findings) {
  std::map<const SurveyedOp*, PreflightFinding> found;
  std::vector<const SurveyedOp*> order;
  for (const SurveyedOp& op : in.survey.ops()) {
    const std::optional<OperandValue> broken = reachable_singularity(op);
    if (!broken) continue;
    const OperandChain chain(in.survey, op.operands[broken->operand]);
    if (std::ranges::any_of(chain.ops(), &SurveyedOp::breaks))
      continue;  // the finding is reported at the op that breaks
    const Origin origin = origin_of(op, in.survey, chain, *broken);
    PreflightFinding f = finding_at(op, origin.rule,
                                    measured(op, broken->operand) ? Severity::kMeasured : Severity::kPossible);
    f.what = origin.what;
    f.advice = origin.advice;
    f.trigger = trigger_of(op, chain, origin, *broken);
    for (const SurveyedOp* step : chain.ops()) found.erase(step);  // the same risk; it is reported at the last op only
    found.emplace(&op, std::move(f));
    order.push_back(&op);
  }
  for (const SurveyedOp* op : order)
    if (const auto f = found.find(op); f != found.end()) findings.push_back(std::move(f->second));
}

void find_vanished_eps(const Inspection& in, Findings& findings) {
  for (const SurveyedOp& op : in.survey.ops()) {
    if (!op.eps || op.operands.empty()) continue;
    const double eps = *op.eps;
    const DType dtype = is_half(op.operands[0].dtype) && op.info->family == OpFamily::kNorm ? op.operands[0].dtype
                                                                                            : DType::f32;
    if (rounded(eps, dtype) > 0) continue;
    const bool gone = rounded(eps, DType::f32) == 0;
    PreflightFinding f = finding_at(op, "eps-vanishes", gone ? Severity::kMeasured : Severity::kPossible);
    if (is_loss(op.info->family)) {
      f.what = fmt::format("its smoothing of {:g} is 0 in {}: predictions and targets of 0 give 0 / 0", eps,
                           name_of(dtype));
      f.advice = "use a smoothing of 1";
      f.trigger = value_trigger("predictions and targets", 0, dtype, 0,
                                "predictions and targets that are all 0 give nan");
    } else {
      f.what = gone ? fmt::format("its eps of {:g} is 0 in f32: a row without spread is 0 / 0", eps)
                    : fmt::format("its eps of {:g} is 0 in {}: a row without spread multiplies its gradient by {:.2g}",
                                  eps, name_of(dtype), 1 / std::sqrt(eps));
      f.advice = "use an eps of 1e-5";
      f.trigger = value_trigger("a row of its input", 0, dtype, 0,
                                gone ? "a row of equal values gives nan"
                                     : fmt::format("a row of equal values and a gradient of {:.2g} give inf in {}",
                                                   range_of(dtype).largest * std::sqrt(eps), name_of(dtype)));
    }
    findings.push_back(std::move(f));
  }
}

}  // namespace binade::amp
