// Averaged weights are part of the state. Each step checks them, and damaged averages are computed again.
#include <gtest/gtest.h>

#include "binade/optim/ema.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

constexpr double kDecay = 0.9;

TrainerOptions averaged(OnNan on_nan = OnNan::kRemedy) {
  return {.ema = optim::EmaOptions{.decay = kDecay}, .on_nan = on_nan};
}

std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values.push_back(tensor.at(i));
  return values;
}

/// Writes a NaN into an average and increments its version, as a program's in-place write does.
void poison(Trainer& trainer) {
  Tensor average = trainer.ema()->average(0);
  average.mutable_data<float>()[3] = std::nanf("");
  average.bump_version();
}

TEST(Averages, ANanAbortsTheStep) {
  toy::Training run(averaged(OnNan::kStop));
  for (std::uint32_t k = 0; k < 5; ++k) run.step(k);
  poison(run.trainer);
  const std::string before = run.trainer.state_hash();
  EXPECT_THROW(run.step(5), NumericError);
  EXPECT_EQ(run.trainer.state_hash(), before);
  const std::vector<StepResult> results = run.trainer.finished();
  ASSERT_TRUE(results.back().incident);
  const Diagnosis& d = results.back().incident->diagnosis;
  EXPECT_EQ(d.cause, CauseClass::kCorruptedState);
  EXPECT_EQ(d.confidence, Confidence::kProven);
  ASSERT_TRUE(d.first_bad);
  EXPECT_EQ(d.first_bad->direction, "state");
  EXPECT_EQ(d.first_bad->tensor, "average of up.weight");
  EXPECT_EQ(d.first_bad->parameter, "up.weight");
}

TEST(Averages, ANanIsMendedFromTheWeightsAndOtherElementsKeepTheirBits) {
  std::vector<double> weights, averages;
  {
    toy::Training clean(averaged());
    for (std::uint32_t k = 0; k < 6; ++k) clean.step(k);
    weights = numbers(clean.net.up.value());
    averages = numbers(clean.trainer.ema()->average(0));
  }
  toy::Training run(averaged());
  for (std::uint32_t k = 0; k < 5; ++k) run.step(k);
  poison(run.trainer);
  const double weight = run.net.up.value().at(3);
  const StepResult result = run.step(5);
  EXPECT_TRUE(result.committed);
  ASSERT_EQ(result.incidents().size(), 1u);
  EXPECT_EQ(result.incidents()[0]->remedy.action, RemedyAction::kMendAverages);
  EXPECT_EQ(numbers(run.net.up.value()), weights);
  const double mended = kDecay * weight + (1 - kDecay) * weights[3];
  EXPECT_NEAR(run.trainer.ema()->average(0).at(3), mended, 1e-6);
  averages[3] = run.trainer.ema()->average(0).at(3);
  EXPECT_EQ(numbers(run.trainer.ema()->average(0)), averages) << "the others are as they were";
}

TEST(Averages, ANanIsMendedFromTheNewestCheckpoint) {
  toy::Training run(averaged());
  for (std::uint32_t k = 0; k < 5; ++k) run.step(k);
  const RecoveryPoint point{5, "step 5", run.trainer.state()};
  run.trainer.set_recovery([&](std::int64_t newest, std::int64_t after) -> std::optional<RecoveryPoint> {
    return point.step <= newest && point.step > after ? std::optional(point) : std::nullopt;
  });
  for (std::uint32_t k = 5; k < 7; ++k) run.step(k);
  poison(run.trainer);
  const double old = point.state.tensor("optim/ema/average/up.weight").at(3), now = run.net.up.value().at(3);
  EXPECT_TRUE(run.step(7).committed);
  const double mended = now + kDecay * kDecay * (old - now), weight = run.net.up.value().at(3);
  EXPECT_NEAR(run.trainer.ema()->average(0).at(3), mended + (1 - kDecay) * (weight - mended), 1e-6);
  EXPECT_EQ(run.trainer.steps(), 8) << "no step is repeated";
}

TEST(Averages, ANanUnderAnUnchangedVersionIsFoundByTheNextUpdate) {
  toy::Training run(averaged());
  for (std::uint32_t k = 0; k < 5; ++k) run.step(k);
  Tensor average = run.trainer.ema()->average(0);
  const_cast<float*>(average.data<float>())[3] = std::nanf(
      "");  // without incrementing the version, as a memory error would
  run.step(5);
  const StepResult result = run.step(6);
  EXPECT_TRUE(result.committed);
  ASSERT_EQ(result.incidents().size(), 1u);
  EXPECT_TRUE(std::isfinite(run.trainer.ema()->average(0).at(3)));
}

}  // namespace
}  // namespace binade::amp
