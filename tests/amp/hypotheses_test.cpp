#include "binade/amp/incident/hypotheses.h"

#include <gtest/gtest.h>

// best_hypothesis() selects the cause that agrees with the outcomes of the experiments, and says whether it is proven.
namespace binade::amp {
namespace {

constexpr Outcome kYes = Outcome::kYes, kNo = Outcome::kNo, kNotMade = Outcome::kNotMade;

void expect(const Evidence& evidence, Hypothesis hypothesis, bool is_proven) {
  const Conclusion conclusion = best_hypothesis(evidence);
  EXPECT_EQ(conclusion.hypothesis, hypothesis);
  EXPECT_EQ(conclusion.is_proven, is_proven);
}

TEST(Hypotheses, AFiniteValueBeyondTheRangeIsAnOverflow) {
  expect({kNo, kYes, kNo, kNo, kNo, kNo}, Hypothesis::kOverflow, true);
  expect({kNo, kYes, kNo, kYes, kNo, kNo}, Hypothesis::kOverflow, true);
}

TEST(Hypotheses, AFiniteReplayAtALowerScaleExcludesOtherOverflows) {
  expect({kNo, kYes, kYes, kNotMade, kNotMade, kNotMade}, Hypothesis::kLossScale, true);
  // Near a singularity, a derivative is very large at every loss scale. At a low scale the gradient may be finite, but
  // the cause is still the singularity, not the scale.
  expect({kYes, kNo, kYes, kNo, kNo, kNo}, Hypothesis::kSingularity, true);
}

TEST(Hypotheses, AReplayInF32DistinguishesARoundedConstantFromASingularity) {
  expect({kYes, kNo, kNo, kYes, kNo, kNo}, Hypothesis::kRoundedConstant, true);
  expect({kYes, kNo, kNo, kNo, kNo, kNo}, Hypothesis::kSingularity, true);
  const Conclusion open = best_hypothesis({kYes, kNo, kNo, kNotMade, kNo, kNo});
  EXPECT_EQ(open.hypothesis, Hypothesis::kSingularity);
  EXPECT_FALSE(open.is_proven) << "a rounded constant was not ruled out";
}

TEST(Hypotheses, ARowThatIsFiniteWhenUnmaskedIsAMaskedRow) {
  expect({kYes, kNo, kNo, kNo, kYes, kYes}, Hypothesis::kFullyMaskedRow, true);
  // An op without a mask input cannot be run again without its mask, so nothing is proven.
  expect({kYes, kNo, kNo, kNo, kYes, kNotMade}, Hypothesis::kNone, false);
}

TEST(Hypotheses, WithoutADecisiveExperimentThereIsNoConclusion) {
  expect({}, Hypothesis::kNone, false);
  expect({kNotMade, kNotMade, kNo, kNo, kNo, kNo}, Hypothesis::kNone, false);
  expect({kNo, kNo, kNo, kNo, kNo, kNo}, Hypothesis::kNone,
         false);  // the op has an ordinary value in f64: no cause agrees
}

}  // namespace
}  // namespace binade::amp
