#include "binade/amp/incident/hypotheses.h"

#include <gtest/gtest.h>

// Which cause the outcomes of experiments leave, and when it counts as proven.
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

TEST(Hypotheses, ALowerScaleThatHelpsRulesOutOtherOverflows) {
  expect({kNo, kYes, kYes, kNotMade, kNotMade, kNotMade}, Hypothesis::kLossScale, true);
  // The derivative at a singularity is large at any scale: that it fits at a small one does not make the scale the
  // cause.
  expect({kYes, kNo, kYes, kNo, kNo, kNo}, Hypothesis::kSingularity, true);
}

TEST(Hypotheses, OnlyF32TellsARoundedConstantFromASingularity) {
  expect({kYes, kNo, kNo, kYes, kNo, kNo}, Hypothesis::kRoundedConstant, true);
  expect({kYes, kNo, kNo, kNo, kNo, kNo}, Hypothesis::kSingularity, true);
  const Conclusion open = best_hypothesis({kYes, kNo, kNo, kNotMade, kNo, kNo});
  EXPECT_EQ(open.hypothesis, Hypothesis::kSingularity);
  EXPECT_FALSE(open.is_proven) << "a rounded constant was not ruled out";
}

TEST(Hypotheses, ARowThatUnmaskingMendsIsAMaskedRow) {
  expect({kYes, kNo, kNo, kNo, kYes, kYes}, Hypothesis::kFullyMaskedRow, true);
  // An op that does not take masks cannot be unmasked: nothing is proven.
  expect({kYes, kNo, kNo, kNo, kYes, kNotMade}, Hypothesis::kNone, false);
}

TEST(Hypotheses, WithoutAnyOwnTestNothingIsConcluded) {
  expect({}, Hypothesis::kNone, false);
  expect({kNotMade, kNotMade, kNo, kNo, kNo, kNo}, Hypothesis::kNone, false);
  expect({kNo, kNo, kNo, kNo, kNo, kNo}, Hypothesis::kNone,
         false);  // f64 has an ordinary value: none of the causes fits
}

}  // namespace
}  // namespace binade::amp
