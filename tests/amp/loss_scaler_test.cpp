#include "binade/amp/loss_scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/core/error.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

/// Applies the events of `script` to the scaler: '+' is a commit, '!' an overflow. Returns the last verdict.
ScaleVerdict play(LossScaler& scaler, std::string_view script) {
  ScaleVerdict verdict = ScaleVerdict::kLowered;
  for (const char c : script) {
    if (c == '+')
      scaler.committed();
    else
      verdict = scaler.overflowed();
  }
  return verdict;
}

TEST(LossScaler, DefaultsAreThoseOfTheDocumentation) {
  const LossScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(scaler.options().growth_interval, 2000);
  EXPECT_EQ(scaler.options().ceiling, 16777216);
  EXPECT_EQ(scaler.options().floor, 1);
}

TEST(LossScaler, GrowsAfterAnIntervalWithoutOverflowAndAnOverflowRestartsIt) {
  LossScaler scaler({.init_scale = 1024, .growth_interval = 3});
  play(scaler, "++");
  EXPECT_EQ(scaler.scale(), 1024);
  play(scaler, "!");
  EXPECT_EQ(scaler.scale(), 512);
  play(scaler, "++");
  EXPECT_EQ(scaler.scale(), 512) << "the interval began anew";
  play(scaler, "+");
  EXPECT_EQ(scaler.scale(), 1024);
  play(scaler, "+++");
  EXPECT_EQ(scaler.scale(), 2048);
}

TEST(LossScaler, StopsGrowingAtTheCeilingAndMayStartAboveTheCeiling) {
  LossScaler scaler({.init_scale = 0x1p23, .growth_interval = 1});
  play(scaler, "+++");
  EXPECT_EQ(scaler.scale(), 0x1p24);
  LossScaler above({.init_scale = 0x1p32, .growth_interval = 1});
  play(above, "+++");
  EXPECT_EQ(above.scale(), 0x1p32) << "neither grown nor cut";
  play(above, "!");
  EXPECT_EQ(above.scale(), 0x1p31);
}

/// Commits steps with the given headroom until the scale changes, at most `most` steps. Returns the scale.
double grown_after(LossScaler& scaler, double headroom, int most) {
  const double before = scaler.scale();
  for (int k = 0; k < most && scaler.scale() == before; ++k) scaler.committed(headroom);
  return scaler.scale();
}

TEST(LossScaler, GrowsOnlyIfTheMeasuredHeadroomSuffices) {
  const LossScaleOptions options{.init_scale = 1024, .growth_interval = 20};
  LossScaler roomy(options), tight(options), unknown(options);
  EXPECT_EQ(grown_after(roomy, 2.0, 20), 2048) << "a binade is left after doubling";
  EXPECT_EQ(grown_after(tight, 1.9, 100), 1024);
  EXPECT_EQ(grown_after(unknown, std::nan(""), 20), 2048) << "nothing was measured: by the clock alone";
  LossScaler once(options);
  grown_after(once, 9, 5);
  once.committed(0.5);
  EXPECT_EQ(grown_after(once, 9, 14), 1024) << "the least headroom counts";
  EXPECT_EQ(grown_after(once, 9, 20), 2048) << "for one interval";
}

TEST(LossScaler, MeasuredHeadroomCountsEightCommitsLater) {
  for (const int commits_after : {7, 8}) {
    LossScaler scaler({.init_scale = 1024, .growth_interval = 20});
    grown_after(scaler, 9, 19 - commits_after);
    scaler.committed(0.5);
    EXPECT_EQ(grown_after(scaler, 9, commits_after), commits_after == 7 ? 2048 : 1024);
  }
}

TEST(LossScaler, NonFiniteHeadroomChangesNoDecision) {
  for (const double bad :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    LossScaler scaler({.init_scale = 1024, .growth_interval = 20}), plain = scaler;
    for (int k = 0; k < 19; ++k) {
      scaler.committed(k == 4 ? bad : 2.5);
      plain.committed(2.5);
    }
    scaler.committed(2.5), plain.committed(2.5);
    EXPECT_EQ(scaler.scale(), plain.scale());
  }
}

TEST(LossScaler, MeasuredScaleIsTheLargestPowerOfTwoWithFourBinadesOfHeadroom) {
  LossScaler scaler(LossScaleOptions::measured());
  scaler.begin_with(65536, 7.7);
  EXPECT_EQ(scaler.scale(), 65536 * 8);
  scaler.begin_with(65536, 0.3);
  EXPECT_EQ(scaler.scale(), 65536 / 16);
  scaler.begin_with(65536, 40);
  EXPECT_EQ(scaler.scale(), 0x1p24) << "the ceiling";
  scaler.begin_with(1, -3);
  EXPECT_EQ(scaler.scale(), 1) << "the floor";
  scaler.begin_with(65536, std::nan(""));
  EXPECT_EQ(scaler.scale(), 1) << "nothing was measured";
}

TEST(LossScaler, AMeasuredScaleLeavesFourBinadesAgainAfterAnOverflow) {
  LossScaler measured(LossScaleOptions::measured()), plain;
  for (LossScaler* scaler : {&measured, &plain}) {
    scaler->overflowed();
    scaler->committed(0.4);
    scaler->committed(0.4);
  }
  EXPECT_EQ(measured.scale(), 32768 / 16) << "four binades and a bit are left";
  EXPECT_EQ(plain.scale(), 32768) << "as published";
}

TEST(LossScaler, AnOverflowAtTheFloorIsNotCausedByTheScale) {
  LossScaler scaler({.init_scale = 2});
  EXPECT_EQ(play(scaler, "!"), ScaleVerdict::kLowered);
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_FALSE(scaler.can_lower());
  EXPECT_EQ(play(scaler, "!"), ScaleVerdict::kAtFloor);
  EXPECT_EQ(scaler.scale(), 1);
}

TEST(LossScaler, AllowsSixtyFourAbortsInARow) {
  LossScaler scaler({.init_scale = 0x1p100, .backoff_factor = 0.9});
  EXPECT_EQ(play(scaler, std::string(64, '!')), ScaleVerdict::kLowered);
  LossScaler other = scaler;
  EXPECT_EQ(play(scaler, "!"), ScaleVerdict::kTooManyInARow);
  EXPECT_EQ(play(other, "+!"), ScaleVerdict::kLowered) << "a commit ends the row";
}

TEST(LossScaler, AllowsFiveAbortsPerHundredCommitsAfterTheFirstHundred) {
  const std::string hundred(100, '+');
  LossScaler early({.init_scale = 0x1p60, .growth_interval = 1});
  EXPECT_EQ(play(early, "!!!!!!!!!!" + std::string(99, '+') + "!!!!!!!!!!"), ScaleVerdict::kLowered)
      << "the first hundred are free";
  LossScaler scaler({.init_scale = 0x1p60});
  EXPECT_EQ(play(scaler, hundred + "!+!+!+!+!"), ScaleVerdict::kLowered);
  LossScaler same = scaler;
  EXPECT_EQ(play(same, std::string(94, '+') + "!"), ScaleVerdict::kTooOften) << "the first is 98 commits ago";
  EXPECT_EQ(play(scaler, std::string(96, '+') + "!"), ScaleVerdict::kLowered) << "the first is 100 commits ago";
}

TEST(LossScaler, StaticAndOffScalesAreConstant) {
  LossScaler fixed(LossScaleOptions::fixed(128)), off(LossScaleOptions::off());
  EXPECT_EQ(play(fixed, std::string(5000, '+') + "!"), ScaleVerdict::kNotAdjustable);
  EXPECT_EQ(fixed.scale(), 128);
  EXPECT_EQ(play(off, "+!"), ScaleVerdict::kNotAdjustable);
  EXPECT_EQ(off.scale(), 1);
}

TEST(LossScaler, ARestoredStateContinues) {
  const LossScaleOptions options{.init_scale = 0x1p30, .growth_interval = 7};
  LossScaler scaler(options), twin(options);
  play(scaler, std::string(105, '+') + "!+!++");
  twin.load_state(scaler.state());
  EXPECT_EQ(twin.snapshot(), scaler.snapshot());
  play(scaler, "+++++!!!++");
  play(twin, "+++++!!!++");
  EXPECT_EQ(twin.snapshot(), scaler.snapshot());
  StateDict missing;
  missing.put("scale", 1.0);
  EXPECT_THROW(twin.load_state(missing), CheckpointError);
}

TEST(LossScaler, ALoadedStateOfAnotherModeStartsOver) {
  LossScaler grown(LossScaleOptions::dynamic(1024)), off(LossScaleOptions::off()), fixed(LossScaleOptions::fixed(8));
  play(grown, "++!+++");
  EXPECT_EQ(grown.scale(), 512);
  off.load_state(grown.state());
  EXPECT_EQ(off.scale(), 1);
  EXPECT_EQ(off.commits(), grown.commits());
  EXPECT_EQ(off.overflows(), 1);
  fixed.load_state(off.state());
  EXPECT_EQ(fixed.scale(), 8);
  LossScaler larger(LossScaleOptions::fixed(16));
  larger.load_state(fixed.state());
  EXPECT_EQ(larger.scale(), 16) << "a number that was changed";
  grown.load_state(larger.state());
  EXPECT_EQ(grown.scale(), 1024);

  StateDict older;  // of a version that did not record the mode
  const StateDict state = fixed.state();
  for (const auto& [name, value] : state.values())
    if (name != "mode") older.put(name, value);
  larger.load_state(older);
  EXPECT_EQ(larger.scale(), 8);
}

TEST(LossScaler, ParsesTheValuesOfTheFlag) {
  EXPECT_EQ(LossScaleOptions::parse("dynamic", 8).init_scale, 8);
  EXPECT_EQ(LossScaleOptions::parse("off").mode, LossScaleMode::kOff);
  EXPECT_EQ(LossScaleOptions::parse("1024").mode, LossScaleMode::kStatic);
  for (const char* bad : {"", "on", "-1", "0", "12x", "inf", "nan"})
    EXPECT_THROW(LossScaleOptions::parse(bad), ArgumentError) << bad;
  EXPECT_THROW(LossScaler({.init_scale = 0}), ArgumentError);
}

TEST(LossScaler, DrivesAHandWrittenLoop) {
  const Runtime runtime;
  toy::Net net;
  optim::Sgd optimizer(net, {.lr = 0.1});
  LossScaler scaler({.init_scale = 0x1p40});
  const PolicyScope autocast(Policy::fp16());
  int aborted = 0;
  double first = 0, last = 0;
  for (std::uint32_t k = 0; k < 60; ++k) {
    const Variable loss = toy::loss(net, toy::batch(k % 4));
    scaler.backward(loss);
    const StepStats stats = scaler.step(optimizer, {.clip_norm = 1});
    aborted += stats.committed ? 0 : 1;
    if (k == 0) first = loss.item();
    last = loss.item();
  }
  EXPECT_GE(aborted, 20);
  EXPECT_LT(aborted, 40);
  EXPECT_EQ(optimizer.updates(), 60 - aborted);
  EXPECT_LT(last, first);
  LossScaler off(LossScaleOptions::off());
  off.backward(toy::loss(net, toy::batch(0)));
  toy::set_gradient_inf(net.bias);
  EXPECT_THROW(off.step(optimizer), NumericError);
}

/// A network of two layers, each with its own optimizer.
struct Halves {
  toy::Net net;
  optim::Sgd up{{{"up.weight", net.up}, {"up.bias", net.bias}}, {.lr = 0.1}};
  optim::Sgd down{{{"down.weight", net.down}}, {.lr = 0.1}};
  void backward(LossScaler& scaler, std::uint32_t k) { scaler.backward(toy::loss(net, toy::batch(k))); }
};

TEST(LossScaler, TwoOptimizersOfOneLossUseTheSameScale) {
  const Runtime runtime;
  // The scale grows at every commit. If the second optimizer's gradients were divided by the scale after the first
  // optimizer's commit, its update would be half as large.
  LossScaler scaler({.init_scale = 1024, .growth_interval = 1}), whole = scaler;
  Halves halves;
  toy::Net net;
  optim::Sgd optimizer(net, {.lr = 0.1});
  for (std::uint32_t k = 0; k < 5; ++k) {
    halves.backward(scaler, k);
    const StepStats stats = scaler.step({&halves.up, &halves.down}, {.clip_norm = 0.5});
    whole.backward(toy::loss(net, toy::batch(k)));
    const StepStats wanted = whole.step(optimizer, {.clip_norm = 0.5});
    EXPECT_TRUE(stats.committed);
    EXPECT_NEAR(stats.grad_norm, wanted.grad_norm, 1e-12 * wanted.grad_norm) << "the norm of all gradients";
  }
  EXPECT_EQ(halves.net.up.value().to_vector<float>(), net.up.value().to_vector<float>());
  EXPECT_EQ(halves.net.down.value().to_vector<float>(), net.down.value().to_vector<float>());
}

TEST(LossScaler, AStepOfTwoOptimizersCommitsBothOrNeither) {
  const Runtime runtime;
  LossScaler scaler({.init_scale = 1024});
  Halves halves;
  const std::vector<float> up = halves.net.up.value().to_vector<float>();
  halves.backward(scaler, 0);
  toy::set_gradient_inf(halves.net.down);
  EXPECT_FALSE(scaler.step({&halves.up, &halves.down}).committed);
  EXPECT_EQ(scaler.scale(), 512);
  EXPECT_EQ(scaler.overflows(), 1);
  halves.backward(scaler, 0);
  halves.down.set_lr(1e6);
  halves.net.down.state()->grad.fill(1e38);
  EXPECT_THROW(scaler.step({&halves.up, &halves.down}), NumericError) << "an update that is not finite";
  EXPECT_EQ(halves.net.up.value().to_vector<float>(), up);
  EXPECT_EQ(halves.up.updates(), 0);
  EXPECT_THROW(scaler.step({&halves.up, &halves.up}), ArgumentError);
  EXPECT_THROW(scaler.step(std::span<optim::Optimizer* const>{}, {}), ArgumentError);
}

TEST(LossScaler, ASecondStepAfterOneBackwardIsAnError) {
  const Runtime runtime;
  LossScaler scaler({.init_scale = 1024, .growth_interval = 1});
  Halves halves;
  halves.backward(scaler, 0);
  EXPECT_TRUE(scaler.step(halves.up).committed);
  const std::vector<float> down = halves.net.down.value().to_vector<float>();
  try {
    scaler.step(halves.down);
    FAIL() << "un-scaled by a scale that had grown";
  } catch (const AutogradError& e) {
    EXPECT_NE(std::string(e.what()).find("step({&a, &b})"), std::string::npos) << e.what();
  }
  EXPECT_EQ(halves.net.down.value().to_vector<float>(), down);
  halves.backward(scaler, 1);
  scaler.overflowed();
  EXPECT_THROW(halves.backward(scaler, 2), AutogradError) << "gradients at two scales would be added";
  EXPECT_EQ(scaler.step({&halves.up, &halves.down}).loss_scale, 2048) << "the scale that the gradients have";
}

TEST(LossScaler, ANonFiniteLossThrowsAndKeepsTheScale) {
  const Runtime runtime;
  toy::Net net;
  optim::Sgd optimizer(net, {.lr = 0.1});
  LossScaler scaler;
  const LossScaler::State before = scaler.snapshot();
  const Variable loss = toy::loss(net, toy::with_nan(toy::batch(0)));
  EXPECT_THROW(scaler.backward(loss), NumericError);
  EXPECT_EQ(scaler.snapshot(), before);
  scaler.backward(toy::loss(net, toy::batch(1)));
  EXPECT_TRUE(scaler.step(optimizer).committed) << "the bad batch is left out and nothing of it stays";
}

TEST(LossScaler, ANanAtTheLowestScaleThrowsAndRestoresTheScale) {
  const Runtime runtime;
  toy::Net net;
  optim::Sgd optimizer(net, {.lr = 0.1});
  LossScaler scaler({.init_scale = 1024});
  const auto step = [&](double limit) {
    net.fragile = limit;  // every gradient above `limit` becomes NaN
    scaler.backward(toy::loss(net, toy::batch(0)));
    return scaler.step(optimizer);
  };
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(step(0).committed);  // treated as an overflow until the scale is lowest
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_THROW(step(0), NumericError);
  EXPECT_EQ(scaler.scale(), 1024);
  EXPECT_EQ(scaler.overflows(), 10);
  EXPECT_TRUE(step(1e30).committed) << "the gradients of the refused step are forgotten";
}

}  // namespace
}  // namespace binade::amp
