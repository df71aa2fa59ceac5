#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/amp/step/trainer.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "tests/amp/toy.h"

// Diagnosis of faults that exist before any op runs (in weights, moments, buffers, the batch, masks), and of bad
// gradients that no op computed.
namespace binade::amp {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Damaged : toy::Training {
  explicit Damaged(TrainerOptions options = {}) : toy::Training(stopping(std::move(options))) {}
  static TrainerOptions stopping(TrainerOptions options) {
    options.on_nan = OnNan::kStop;
    return options;
  }

  /// Returns a moment, which shares memory with the optimizer, and makes the optimizer check it in the next step.
  Tensor moment(const char* which, const char* parameter) {
    optimizer.weights_changed();
    return optimizer.state().tensor(std::string(which) + "/" + parameter);
  }
  template <class Closure>
  Diagnosis diagnosis_of(const toy::Batch& b, Closure&& closure) {
    EXPECT_THROW(trainer.step(b, closure), NumericError);
    return trainer.finished().back().incident.value().diagnosis;
  }
  Diagnosis diagnosis_of(const toy::Batch& b) {
    return diagnosis_of(b, [&](const toy::Batch& x) { return toy::loss(net, x); });
  }
};

void expect_damage(const Diagnosis& d, const std::string& parameter, const std::string& value) {
  EXPECT_EQ(d.cause, CauseClass::kCorruptedState);
  EXPECT_EQ(d.confidence, Confidence::kProven);
  const FirstBad& bad = d.first_bad.value();
  EXPECT_EQ(bad.direction, "state");
  EXPECT_EQ(bad.parameter, parameter);
  EXPECT_EQ(bad.value, value);
  EXPECT_FALSE(bad.sample.has_value()) << "a row of a weight is no sample";
}

TEST(Damage, ANonFiniteMomentIsCorruptedState) {
  Damaged run;
  run.step(1);
  run.moment("moment1", "up.weight").mutable_data<float>()[5] = std::nanf("");
  const Diagnosis d = run.diagnosis_of(toy::batch(2));
  expect_damage(d, "up.weight", "nan");
  EXPECT_EQ(d.first_bad->tensor, "moment1/up.weight");
  EXPECT_EQ(d.first_bad->index, (std::vector<std::int64_t>{1, 1}));
}

TEST(Damage, ANegativeSecondMomentIsCorruptedState) {
  Damaged run;
  run.step(1);
  run.moment("moment2", "down.weight").mutable_data<float>()[3] = -1;
  const Diagnosis d = run.diagnosis_of(toy::batch(2));
  expect_damage(d, "down.weight", "nan");
  EXPECT_EQ(d.first_bad->tensor, "root of moment2/down.weight");
}

TEST(Damage, AFrozenParameterIsAWeightAndNoPartOfTheBatch) {
  for (const Policy& precision : {Policy::fp32(), Policy::bf16()}) {
    Runtime runtime({.seed = 1});
    toy::Net net;
    net.up.requires_grad(false);
    net.bias.requires_grad(false);
    optim::Sgd optimizer({{"down.weight", net.down}}, {.lr = 0.01});
    Trainer trainer(runtime, net, optimizer, {.precision = precision, .on_nan = OnNan::kStop});
    const auto closure = [&](const toy::Batch& b) { return toy::loss(net, b); };
    trainer.step(toy::batch(1), closure);
    net.up.mutable_value().mutable_data<float>()[5] = std::nanf("");
    EXPECT_THROW(trainer.step(toy::batch(2), closure), NumericError);
    const Diagnosis d = trainer.finished().back().incident.value().diagnosis;
    expect_damage(d, "up.weight", "nan");
    EXPECT_EQ(d.first_bad->index, (std::vector<std::int64_t>{1, 1}));
  }
}

TEST(Damage, ABadStatisticIsReportedWithItsPath) {
  Damaged run;
  run.net.mean.mutable_committed().mutable_data<float>()[2] = std::nanf("");
  expect_damage(run.diagnosis_of(toy::batch(1)), "mean", "nan");
}

TEST(Damage, ABadWeightIsReportedWithoutASample) {
  Damaged run;
  run.net.up.mutable_value().mutable_data<float>()[7] = kInfinity;
  expect_damage(run.diagnosis_of(toy::batch(1)), "up.weight", "inf");
}

TEST(Damage, AnInfiniteGradientThatNoOpComputedIsReportedWithItsParameter) {
  Damaged run({.inject = {"inf-grad@step=1,param=down.weight"}});
  const Diagnosis d = run.diagnosis_of(toy::batch(1));
  const FirstBad& bad = d.first_bad.value();
  EXPECT_EQ(bad.direction, "backward");
  EXPECT_EQ(bad.parameter, "down.weight");
  EXPECT_EQ(bad.value, "inf");
  EXPECT_EQ(d.cause, CauseClass::kNotProven);
}

TEST(Damage, MinusInfinityThatAProductReadsIsBadInput) {
  for (const char* precision : {"fp32", "fp16"}) {
    Damaged run({.precision = Policy::by_name(precision)});
    toy::Batch b = toy::batch(1);
    b.x.mutable_data<float>()[5 * 4 + 2] = -kInfinity;
    const Diagnosis d = run.diagnosis_of(b, [&](const toy::Batch& x) {
      return mean(linear(x.x, run.net.up, run.net.bias));
    });
    EXPECT_EQ(d.cause, CauseClass::kBadInput) << precision;
    EXPECT_EQ(d.first_bad.value().direction, "input") << precision;
    EXPECT_EQ(d.first_bad->sample, 5) << precision;
  }
}

TEST(Damage, ABatchValueBeyondTheRangeOfF16IsBadInput) {
  Damaged run({.precision = Policy::fp16()});
  toy::Batch b = toy::batch(1);
  b.x.mutable_data<float>()[3 * 4] = 1e6f;
  const Diagnosis d = run.diagnosis_of(b, [&](const toy::Batch& x) {
    return mean(linear(x.x, run.net.up, run.net.bias));
  });
  EXPECT_EQ(d.first_bad.value().direction, "input");
  EXPECT_EQ(d.first_bad->sample, 3);
}

TEST(Damage, AHandWrittenSoftmaxOfAMaskedRowIsAFullyMaskedRow) {
  Damaged run;
  Tensor mask = Tensor::zeros({8, 2});
  mask.mutable_data<float>()[2 * 6] = mask.mutable_data<float>()[2 * 6 + 1] = -kInfinity;
  const Diagnosis d = run.diagnosis_of(toy::batch(1), [&](const toy::Batch& x) {
    const Variable scores = run.net(x.x) + Variable(mask);
    const Variable e = exp(scores - max(scores, {-1}, true));
    return mean(e / sum(e, {-1}, true));
  });
  EXPECT_EQ(d.cause, CauseClass::kFullyMaskedRow);
  EXPECT_EQ(d.first_bad.value().op, "sub");
  EXPECT_EQ(d.first_bad->sample, 6);
}

TEST(Damage, GradientsBeyondTheRangeOfF16AreAGradientExplosion) {
  Damaged run({.precision = Policy::fp16(), .loss_scale = LossScaleOptions::off()});
  const Diagnosis d = run.diagnosis_of(toy::batch(1), [&](const toy::Batch& x) { return toy::loss(run.net, x) * 1e9; });
  EXPECT_EQ(d.first_bad.value().direction, "backward");
  EXPECT_EQ(d.cause, CauseClass::kGradientExplosion);
  EXPECT_EQ(d.confidence, Confidence::kProven);
}

}  // namespace
}  // namespace binade::amp
