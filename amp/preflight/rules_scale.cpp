#include <algorithm>
#include <cmath>

#include "binade/amp/preflight/rules.h"
#include "binade/amp/text.h"

namespace binade::amp {
namespace {

/// Maximum number of halvings that a dynamic loss scale may need in the first step without a finding.
constexpr double kOrdinaryHalvings = 4;

/// The op whose scaled gradients use the largest share of the range of their dtype.
struct Nearest {
  double share = 0;
  const SurveyedOp* op = nullptr;
};

Nearest nearest_to_overflow(const Survey& survey) {
  Nearest nearest;
  for (const SurveyedOp& op : survey.ops()) {
    const double low = optim::magnitude_of(op.gradients.low) / range_of(op.gradient_dtype).largest;
    const double wide = optim::magnitude_of(op.gradients.wide) / range_of(DType::f32).largest;
    const double share = is_half(op.gradient_dtype) ? std::max(low, wide) : wide;
    if (share > nearest.share) nearest = {share, &op};
  }
  return nearest;
}

PreflightFinding scale_finding(std::string rule, Severity severity) {
  return {.rule = std::move(rule), .severity = severity, .op = "loss scale"};
}

void judge_overflow(const Inspection& in, Findings& findings) {
  const Nearest nearest = nearest_to_overflow(in.survey);
  if (in.loss_scale.measure || nearest.op == nullptr || !(nearest.share < 1)) return;
  const double fits = std::exp2(std::floor(std::log2(in.measured_at / nearest.share)));
  if (fits >= in.scale) return;
  const double halvings = std::ceil(std::log2(in.scale / fits));
  const bool fixed = in.loss_scale.mode != LossScaleMode::kDynamic;
  if (!fixed && halvings <= kOrdinaryHalvings) return;
  PreflightFinding f = scale_finding("scale-overflow", Severity::kMeasured);
  f.what = fmt::format("scaled gradients of the measured batch overflow at {:g}, first in {}: {}", in.scale,
                       quoted_op(nearest.op->info->name, nearest.op->module),
                       fixed ? "no step can be committed" : fmt::format("{} attempts are lost", halvings));
  f.advice = fmt::format("start at {:g}", fits);
  f.trigger = value_trigger("the loss scale", in.scale, DType::f32, fits,
                            fmt::format("gradients reach {:.2g} times the range at {:g}",
                                        nearest.share * in.scale / in.measured_at, in.scale));
  findings.push_back(std::move(f));
}

/// Reports an op all of whose f16 gradients are below the smallest normal number.
void judge_underflow(const Inspection& in, Findings& findings) {
  if (in.loss_scale.mode == LossScaleMode::kDynamic || in.policy.low != DType::f16) return;
  const SurveyedOp* worst = nullptr;
  double largest = range_of(DType::f16).smallest_normal;
  for (const SurveyedOp& op : in.survey.ops()) {
    const double here = optim::magnitude_of(op.gradients.low) * in.scale / in.measured_at;
    if (op.gradient_dtype == DType::f16 && here > 0 && here < largest) largest = here, worst = &op;
  }
  if (worst == nullptr) return;
  PreflightFinding f = scale_finding("scale-underflow", Severity::kMeasured);
  f.what = fmt::format("gradients of {} are at most {:.2g} at loss scale {:g}: they vanish in f16",
                       quoted_op(worst->info->name, worst->module), largest, in.scale);
  f.advice = "use the dynamic loss scale";
  f.trigger = value_trigger("the largest gradient there", largest, DType::f16, largest,
                            fmt::format("{:.2g} is below 6.1e-05, where f16 loses its digits", largest));
  findings.push_back(std::move(f));
}

}  // namespace

void find_unfit_scale(const Inspection& in, Findings& findings) {
  if (!in.backward) return;
  judge_overflow(in, findings);
  judge_underflow(in, findings);
}

}  // namespace binade::amp
