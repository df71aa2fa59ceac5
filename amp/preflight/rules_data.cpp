#include <algorithm>
#include <cmath>
#include <set>

#include "binade/amp/preflight/rules.h"

namespace binade::amp {
namespace {

std::string kind_of(const Extremes& e) {
  if (e.nan) return "nan";
  return e.positive ? "inf" : "-inf";
}

bool takes_masks(const SurveyedOp& op, std::size_t input) {
  for (const std::string_view name : {"add", "sub", "mul", "where", "minimum", "maximum", "cast", "reshape", "permute",
                                      "slice", "concat", "softmax", "log_softmax"})
    if (op.is(name)) return true;
  return op.is("attention") && input == 3;
}

/// A target that a loss has no answer for: the lowest and highest that it takes.
bool bad_target(const SurveyedOp& op, PreflightFinding& f) {
  const bool probability = op.is("bce") || op.is("bce_with_logits") || op.is("dice");
  if ((!probability && !op.is("kl_div")) || op.operands[1].varies || !op.operands[1].seen) return false;
  const Extremes& e = *op.operands[1].seen;
  const double worst = e.low < 0 ? e.low : e.high;
  if (!(e.low < 0 || (probability && e.high > 1))) return false;
  f.what = fmt::format("a target of the batch is {:g}, wanted {}", worst, probability ? "0 to 1" : "0 or more");
  f.advice = "scale the targets (a mask of 0 and 255: divide by 255)";
  f.trigger = Trigger{"a target",
                      {worst},
                      op.operands[1].dtype,
                      worst,
                      fmt::format("a target of {:g} makes the loss fall without end", worst)};
  return true;
}

}  // namespace

void find_bad_data(const Inspection& in, Findings& findings) {
  std::set<const void*> told;
  for (const SurveyedOp& op : in.survey.ops()) {
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const SurveyedOperand& o = op.operands[i];
      if (!o.given || o.producer >= 0 || !o.seen || o.seen->finite()) continue;
      const bool mask = takes_masks(op, i) && !o.seen->nan && !o.seen->positive;
      if ((mask && o.parameter.empty()) || !told.insert(o.leaf).second) continue;
      PreflightFinding f = finding_at(op, o.parameter.empty() ? "bad-input" : "bad-weight", Severity::kMeasured);
      f.what = fmt::format("{} holds {}", o.parameter.empty() ? "the batch" : o.parameter, kind_of(*o.seen));
      f.advice = o.parameter.empty() ? "check the data" : "check how it was initialized or loaded";
      findings.push_back(std::move(f));
    }
    if (PreflightFinding f = finding_at(op, "bad-target", Severity::kMeasured); bad_target(op, f))
      findings.push_back(std::move(f));
    if (op.no_label) {
      PreflightFinding f = finding_at(op, "no-label", Severity::kMeasured);
      f.what = "every label of the batch is the ignored one: the mean over nothing is nan";
      f.advice = "leave such batches out";
      findings.push_back(std::move(f));
    }
  }
}

void find_non_finite(const Inspection& in, Findings& findings) {
  for (const SurveyedOp& op : in.survey.ops()) {
    const bool legal = op.result && op.result->negative && !op.result->nan && !op.result->positive && op.masked;
    const bool forward = op.breaks && !legal;
    if ((!forward && !op.backward_breaks) || told(findings, op)) continue;
    PreflightFinding f = finding_at(op, "non-finite", Severity::kMeasured);
    f.what = fmt::format("its {} is not finite in the measured batch, though what it read is",
                         forward ? "result" : "gradient");
    f.advice = "see docs/incidents.md: the first step will be diagnosed";
    findings.push_back(std::move(f));
    return;  // what follows is a victim
  }
}

}  // namespace binade::amp
