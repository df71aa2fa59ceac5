#include "binade/amp/incident/evaluation.h"

#include "binade/amp/verdict.h"
#include "binade/core/dtype.h"

namespace binade::amp {

Incident diagnose_evaluation(std::int64_t step, const std::string& what, const FirstBadSearch& search,
                             nn::Module& model, bool averaged) {
  Incident incident{.step = step, .what = what, .warning = true};
  Diagnosis& d = incident.diagnosis;
  d.replays = 1;
  d.first_bad = search.found();
  if (d.first_bad) {
    FirstBad& bad = *d.first_bad;
    bad.sample.reset();  // rows of an evaluation's batch are not the training's samples
    bad.samples.clear();
    if (bad.direction == "state" && averaged) bad.tensor = "average of " + bad.parameter;
    for (const auto& [name, buffer] : nn::named_buffers(model))
      if (bad.direction == "input" && name.starts_with(bad.module + ".") && !all_finite(buffer->committed())) {
        bad.direction = "state";
        bad.tensor = name;
        break;
      }
    const bool stored = bad.direction == "state", given = bad.direction == "input";
    const bool half = bad.dtype == name_of(DType::f16) || bad.dtype == name_of(DType::bf16);
    d.cause = stored  ? CauseClass::kCorruptedState
              : given ? CauseClass::kBadInput
              : half  ? CauseClass::kActivationOverflow
                      : CauseClass::kNotProven;
    d.confidence = stored || given ? Confidence::kProven : half ? Confidence::kLikely : Confidence::kNotProven;
  }
  d.advice = advise(d);
  incident.remedy = {.action = RemedyAction::kNone,
                     .what = "training goes on, unharmed; this evaluation is never the best"};
  return incident;
}

}  // namespace binade::amp
