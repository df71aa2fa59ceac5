#include "binade/amp/incident/hypotheses.h"

#include <array>

namespace binade::amp {
namespace {

constexpr Outcome kYes = Outcome::kYes, kNo = Outcome::kNo, kAny = Outcome::kNotMade;

/// The outcomes that a hypothesis predicts (kAny: it predicts none), and its own test: the experiment that must have
/// come out for a proof.
struct Prediction {
  Hypothesis hypothesis;
  Evidence outcomes;
  Outcome Evidence::*test;
};

// Columns: singular, beyond_range, lower_scale_helps, f32_helps, unmasking_helps.
constexpr std::array kPredictions = {
    Prediction{Hypothesis::kLossScale, {kNo, kAny, kYes, kAny, kAny}, &Evidence::lower_scale_helps},
    Prediction{Hypothesis::kFullyMaskedRow, {kYes, kNo, kAny, kNo, kYes}, &Evidence::unmasking_helps},
    Prediction{Hypothesis::kRoundedConstant, {kYes, kNo, kAny, kYes, kNo}, &Evidence::f32_helps},
    Prediction{Hypothesis::kSingularity, {kYes, kNo, kAny, kNo, kNo}, &Evidence::singular},
    Prediction{Hypothesis::kOverflow, {kNo, kYes, kNo, kAny, kNo}, &Evidence::beyond_range},
};

constexpr Outcome Evidence::*kExperiments[] = {&Evidence::singular, &Evidence::beyond_range,
                                               &Evidence::lower_scale_helps, &Evidence::f32_helps,
                                               &Evidence::unmasking_helps};

bool contradicts(const Evidence& evidence, const Evidence& predicted) {
  for (const auto experiment : kExperiments) {
    const Outcome seen = evidence.*experiment, expected = predicted.*experiment;
    if (seen != kAny && expected != kAny && seen != expected) return true;
  }
  return false;
}

}  // namespace

Conclusion best_hypothesis(const Evidence& evidence) {
  const Prediction* best = nullptr;
  int possible = 0;
  for (const Prediction& p : kPredictions) {
    if (contradicts(evidence, p.outcomes)) continue;
    ++possible;
    const bool tested = evidence.*p.test == kYes;
    if (best == nullptr || (tested && evidence.*best->test != kYes)) best = &p;
  }
  if (best == nullptr || evidence.*best->test != kYes) return {};
  return {best->hypothesis, possible == 1};
}

}  // namespace binade::amp
