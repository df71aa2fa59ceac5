#include <cmath>
#include <set>

#include "binade/amp/preflight/rules.h"

namespace binade::amp {
namespace {

std::string kind_of(const Extremes& e) {
  if (e.nan) return "nan";
  return e.positive ? "inf" : "-inf";
}

std::string text_of(const ValueRange& range) {
  if (std::isinf(range.high)) return fmt::format("{:g} or more", range.low);
  if (std::isinf(range.low)) return fmt::format("{:g} or less", range.high);
  return fmt::format("{:g} to {:g}", range.low, range.high);
}

/// Fills `f` and returns true if a target of the batch is outside the legal range that the loss states.
bool bad_target(const SurveyedOp& op, PreflightFinding& f) {
  const ValueRange& legal = op.info->targets;
  if (op.operands.size() < 2 || op.operands[1].varies || !op.operands[1].observed) return false;
  const Extremes& e = *op.operands[1].observed;
  const bool below = e.low < legal.low;
  if (!below && !(e.high > legal.high)) return false;
  const double worst = below ? e.low : e.high;
  f.what = fmt::format("a target of the batch is {:g}, wanted {}", worst, text_of(legal));
  f.advice = "scale the targets (a mask of 0 and 255: divide by 255)";
  f.trigger = value_trigger("a target", worst, op.operands[1].dtype, worst,
                            fmt::format("a target of {:g} makes the loss unbounded below", worst));
  return true;
}

}  // namespace

void find_bad_data(const Inspection& in, Findings& findings) {
  std::set<const void*> reported;
  for (const SurveyedOp& op : in.survey.ops()) {
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const SurveyedOperand& o = op.operands[i];
      if (!o.given || o.producer >= 0 || !o.observed || o.observed->finite()) continue;
      const bool mask = op.info->takes_mask(i) && !o.observed->nan && !o.observed->positive;
      if ((mask && o.parameter.empty()) || !reported.insert(o.leaf).second) continue;
      PreflightFinding f = finding_at(op, o.parameter.empty() ? "bad-input" : "bad-weight", Severity::kMeasured);
      f.what = fmt::format("{} holds {}", o.parameter.empty() ? "the batch" : o.parameter, kind_of(*o.observed));
      f.advice = o.parameter.empty() ? "check the data" : "check how it was initialized or loaded";
      findings.push_back(std::move(f));
    }
    if (PreflightFinding f = finding_at(op, "bad-target", Severity::kMeasured); bad_target(op, f))
      findings.push_back(std::move(f));
    if (op.no_label) {
      PreflightFinding f = finding_at(op, "no-label", Severity::kMeasured);
      f.what = "every label of the batch is ignored: the mean over no element is nan";
      f.advice = "leave such batches out";
      findings.push_back(std::move(f));
    }
  }
}

void find_non_finite(const Inspection& in, Findings& findings) {
  for (const SurveyedOp& op : in.survey.ops()) {
    const bool legal = op.result && op.result->negative && !op.result->nan && !op.result->positive && op.masked;
    const bool forward = op.breaks && !legal;
    if ((!forward && !op.backward_breaks) || has_finding(findings, op)) continue;
    PreflightFinding f = finding_at(op, "non-finite", Severity::kMeasured);
    f.what = fmt::format("its {} is not finite in the measured batch, though its operands are",
                         forward ? "result" : "gradient");
    f.advice = "see docs/incidents.md: the first step will be diagnosed";
    findings.push_back(std::move(f));
    return;  // later non-finite results follow from this one
  }
}

}  // namespace binade::amp
