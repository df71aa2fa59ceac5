#include <gtest/gtest.h>

#include "binade/autograd/functions.h"
#include "binade/nn/losses.h"
#include "tests/amp/lab.h"

// Diagnosis of bad tensors that belong neither to the batch nor to the model, and of runs that have diverged.
namespace binade::amp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Diagnosis first_diagnosis(toy::Lab& lab) {
  const std::vector<Incident> found = lab.incidents();
  EXPECT_FALSE(found.empty());
  return found.empty() ? Diagnosis{} : found.front().diagnosis;
}

TEST(OutsideOfTheBatch, ANanThatRemainsWithoutHalfOfTheRowsIsState) {
  toy::Lab lab({});
  Tensor teacher = toy::random({2, 4}, 7);
  teacher.mutable_data<float>()[3] = std::nanf("");
  lab.step([&](const toy::LabBatch& b) {
    return nn::mse(lab.model(b.x), linear(Variable(b.x), Variable(teacher)).detach());
  });
  const Diagnosis d = first_diagnosis(lab);
  EXPECT_EQ(d.cause, CauseClass::kCorruptedState);
  EXPECT_EQ(d.confidence, Confidence::kLikely) << "a number of the batch would stay, too";
  EXPECT_EQ(d.first_bad->direction, "state");
  EXPECT_EQ(d.first_bad->op, "linear");
  EXPECT_NE(d.advice.find("nn::Buffer"), std::string::npos) << d.advice;
}

TEST(OutsideOfTheBatch, ANanInEveryRowOfTheBatchIsBadInput) {
  toy::Lab lab({});
  lab.step([&](const toy::LabBatch& b) {
    const Tensor bad = Tensor::full(b.x.shape(), std::nanf(""));
    return nn::mse(lab.model(bad), b.target);
  });
  EXPECT_EQ(first_diagnosis(lab).cause, CauseClass::kBadInput);
}

TEST(OutsideOfTheBatch, ALossThatTurnsAConstantMaskIntoNanIsTheFirstBadOp) {
  toy::Lab lab({});
  const Tensor mask = Tensor::from(std::vector<float>{0, -kInfinity}, {2});
  lab.step([&](const toy::LabBatch& b) {
    const Tensor classes = Tensor::full({b.x.dim(0)}, 0).to(DType::i32);
    return nn::cross_entropy(lab.model(b.x) + Variable(mask), classes, {.label_smoothing = 0.1});
  });
  const Diagnosis d = first_diagnosis(lab);
  EXPECT_EQ(d.first_bad->op, "cross_entropy");
  EXPECT_EQ(d.first_bad->direction, "forward");
  EXPECT_EQ(d.cause, CauseClass::kLossFunctionSingularity);
}

TEST(OutsideOfTheBatch, AnOverflowOfF32AfterGrowingLossesIsAGradientExplosion) {
  for (const bool grew : {true, false}) {
    toy::Lab lab({});
    for (int step = 1; step <= 3; ++step) {
      const double factor = grew ? std::pow(1e4, step) : 1;
      lab.step([&](const toy::LabBatch& b) { return nn::mse(lab.model(b.x), b.target) * factor; });
    }
    EXPECT_TRUE(lab.incidents().empty());
    lab.step([&](const toy::LabBatch& b) { return nn::mse(lab.model(b.x) * 1e25, b.target); });
    const Diagnosis d = first_diagnosis(lab);
    EXPECT_EQ(d.cause, grew ? CauseClass::kGradientExplosion : CauseClass::kActivationOverflow);
    EXPECT_TRUE(!grew || d.confidence == Confidence::kLikely);
  }
}

TEST(OutsideOfTheBatch, ReplaysWithoutSamplesUseALossScaleOfOne) {
  // Without the bad sample the loss is larger, so that its gradients overflow at the current loss scale.
  toy::Lab lab({.precision = Policy::fp16(), .loss_scale = LossScaleOptions::dynamic(0x1p16)});
  const toy::LabBatch batch = lab.loader.next();
  lab.bad_sample = batch.origin.samples[3];
  const toy::LabBatch bad = lab.make(batch.origin);
  lab.trainer.step(bad, [&](const toy::LabBatch& b) { return nn::mse(lab.model(b.x), b.target) * 2000; });
  const Diagnosis d = first_diagnosis(lab);
  EXPECT_EQ(d.first_bad->sample, 3);
}

}  // namespace
}  // namespace binade::amp
