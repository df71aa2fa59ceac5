#include "binade/amp/incident/hypotheses.h"

#include <array>

namespace binade::amp {
namespace {

constexpr Outcome kYes = Outcome::kYes, kNo = Outcome::kNo, kAny = Outcome::kNotMade;

/// The outcomes that a hypothesis predicts; kAny: it predicts none.
struct Prediction {
  Hypothesis hypothesis;
  Evidence outcomes;
};

// Columns: singular, beyond_range, lower_scale_helps, f32_helps, operand_is_masked, unmasking_helps.
constexpr std::array kPredictions = {
    Prediction{Hypothesis::kLossScale, {kNo, kAny, kYes, kAny, kAny, kAny}},
    Prediction{Hypothesis::kFullyMaskedRow, {kYes, kNo, kAny, kNo, kYes, kYes}},
    Prediction{Hypothesis::kRoundedConstant, {kYes, kNo, kAny, kYes, kNo, kNo}},
    Prediction{Hypothesis::kSingularity, {kYes, kNo, kAny, kNo, kNo, kNo}},
    Prediction{Hypothesis::kOverflow, {kNo, kYes, kNo, kAny, kAny, kNo}},
};

constexpr Outcome Evidence::*kExperiments[] = {&Evidence::singular,          &Evidence::beyond_range,
                                               &Evidence::lower_scale_helps, &Evidence::f32_helps,
                                               &Evidence::operand_is_masked, &Evidence::unmasking_helps};

bool contradicts(const Evidence& evidence, const Evidence& predicted) {
  for (const auto experiment : kExperiments) {
    const Outcome seen = evidence.*experiment, expected = predicted.*experiment;
    if (seen != kAny && expected != kAny && seen != expected) return true;
  }
  return false;
}

/// True if every outcome that the hypothesis predicts to be "yes" was seen.
bool is_tested(const Evidence& evidence, const Evidence& predicted) {
  for (const auto experiment : kExperiments)
    if (predicted.*experiment == kYes && evidence.*experiment != kYes) return false;
  return true;
}

}  // namespace

Conclusion best_hypothesis(const Evidence& evidence) {
  Conclusion conclusion;
  int possible = 0;
  for (const Prediction& p : kPredictions) {
    if (contradicts(evidence, p.outcomes)) continue;
    ++possible;
    if (conclusion.hypothesis == Hypothesis::kNone && is_tested(evidence, p.outcomes))
      conclusion.hypothesis = p.hypothesis;
  }
  conclusion.is_proven = conclusion.hypothesis != Hypothesis::kNone && possible == 1;
  return conclusion;
}

}  // namespace binade::amp
