#include "binade/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "binade/core/error.h"

namespace binade::optim {
namespace {

TEST(Schedule, WarmsUpLinearlyThenFollowsItsCurve) {
  const Schedule cosine = Schedule::cosine(1e-3, 2000, 1e-4, 100);
  EXPECT_DOUBLE_EQ(cosine.lr(1), 1e-5);
  EXPECT_DOUBLE_EQ(cosine.lr(100), 1e-3);
  EXPECT_DOUBLE_EQ(cosine.lr(1050), 5.5e-4) << "half way";
  EXPECT_DOUBLE_EQ(cosine.lr(2000), 1e-4);
  EXPECT_DOUBLE_EQ(cosine.lr(9999), 1e-4) << "stays";
  const Schedule linear = Schedule::linear(1, 10);
  EXPECT_DOUBLE_EQ(linear.lr(5), 0.5);
  EXPECT_DOUBLE_EQ(linear.lr(10), 0);
  EXPECT_DOUBLE_EQ(Schedule::constant(0.25, 4).lr(2), 0.125);
  EXPECT_DOUBLE_EQ(Schedule::constant(0.25, 4).lr(400), 0.25);
}

TEST(Schedule, PlateauDropsAfterPatienceAndNeverBelowItsFloor) {
  Schedule s = Schedule::plateau(1, 0.5, 2, 0.2);
  s.observe(1.0);
  for (int i = 0; i < 2; ++i) s.observe(1.0);
  EXPECT_DOUBLE_EQ(s.lr(1), 1) << "two bad ones are within patience";
  s.observe(std::nan(""));
  EXPECT_DOUBLE_EQ(s.lr(1), 1) << "a NaN does not count";
  s.observe(1.0);
  EXPECT_DOUBLE_EQ(s.lr(1), 0.5);
  s.observe(0.5);
  for (int i = 0; i < 12; ++i) s.observe(0.5);
  EXPECT_DOUBLE_EQ(s.lr(1), 0.2);
}

// If higher scores are better, a run passes the negated score to the schedule. This equals PyTorch's mode max.
TEST(Schedule, PlateauOfNegativeValuesDropsIfTheyStayOrRise) {
  for (const double later : {-0.7, -0.69995}) {
    Schedule s = Schedule::plateau(1, 0.5, 2);
    s.observe(-0.7);
    for (int i = 0; i < 3; ++i) s.observe(later);
    EXPECT_DOUBLE_EQ(s.lr(1), 0.5) << later;
  }
  Schedule s = Schedule::plateau(1, 0.5, 0);
  for (const double value : {-0.7, -0.71, -0.72}) s.observe(value);
  EXPECT_DOUBLE_EQ(s.lr(1), 1) << "each is better by more than the threshold";
}

TEST(Schedule, ARestoredStateContinues) {
  Schedule s = Schedule::plateau(1, 0.5, 1), twin = Schedule::plateau(1, 0.5, 1);
  for (const double loss : {3.0, 2.0, 2.5, 2.4}) s.observe(loss);
  twin.load_state(s.state());
  for (const double loss : {2.3, 2.2, 1.0, 1.1, 1.2}) {
    s.observe(loss);
    twin.observe(loss);
    EXPECT_EQ(s.lr(7), twin.lr(7));
  }
}

TEST(Schedule, AnotherKindStartsOverAndAnotherPeakScalesThePlateau) {
  Schedule s = Schedule::plateau(1, 0.5, 0);
  for (const double loss : {3.0, 3.0, 3.0}) s.observe(loss);
  EXPECT_DOUBLE_EQ(s.lr(7), 0.25);
  Schedule smaller = Schedule::plateau(0.1, 0.5, 0, 0.04), constant = Schedule::constant(2);
  smaller.load_state(s.state());
  EXPECT_DOUBLE_EQ(smaller.lr(7), 0.04) << "a quarter of the peak, at least min_lr";
  constant.load_state(s.state());
  EXPECT_DOUBLE_EQ(constant.lr(7), 2);
  s.load_state(constant.state());
  EXPECT_DOUBLE_EQ(s.lr(7), 1);
  StateDict of_a_users_rule;
  const StateDict none = constant.state();
  for (const auto& [name, value] : none.values())
    of_a_users_rule.put(name, name == "kind" ? StateDict::Value(std::string("mine")) : value);
  constant.load_state(of_a_users_rule);
  EXPECT_DOUBLE_EQ(constant.lr(7), 2);
}

TEST(Schedule, OptionsOutOfRangeAreRefused) {
  EXPECT_THROW(Schedule::cosine(1, 0), ArgumentError);
  EXPECT_THROW(Schedule::linear(1, 10, 2), ArgumentError);
  EXPECT_THROW(Schedule::plateau(1, 1.5), ArgumentError);
  EXPECT_THROW(Schedule::constant(std::nan("")), ArgumentError);
  EXPECT_EQ(schedule_kind("cosine"), ScheduleKind::kCosine);
  EXPECT_THROW(schedule_kind("cosin"), ArgumentError);
}

/// Halves the rate whenever a loss is above the previous loss.
struct Cautious {
  double lr = 1, last = 0;
  double operator()(std::int64_t) const { return lr; }
  std::string kind() const { return "cautious"; }
  void observe(double loss) {
    if (loss > last) lr /= 2;
    last = loss;
  }
  StateDict state() const {
    StateDict state;
    state.put("lr", lr);
    state.put("last", last);
    return state;
  }
  void load_state(const StateDict& state) {
    check<CheckpointError>(state.number("lr") > 0, "cautious: wanted an lr above 0");
    lr = state.number("lr");
    last = state.number("last");
  }
};

TEST(ScheduleRules, AUsersRuleKeepsItsState) {
  Schedule s(Cautious{}), copy = s;
  for (const double loss : {1.0, 2.0, 1.5}) s.observe(loss);
  EXPECT_EQ(s.lr(1), 0.25);
  EXPECT_EQ(copy.lr(1), 1) << "a copy has a state of its own";
  Schedule resumed((Cautious()));
  resumed.check_state(s.state());
  EXPECT_EQ(resumed.lr(1), 1) << "a check changes nothing";
  resumed.load_state(s.state());
  EXPECT_EQ(resumed.lr(1), 0.25);
  resumed.observe(1.6);
  EXPECT_EQ(resumed.lr(1), 0.125);
  StateDict damaged;
  const StateDict now = s.state();
  for (const auto& [name, value] : now.values()) damaged.put(name, name == "rule/lr" ? StateDict::Value(-1.0) : value);
  EXPECT_THROW(resumed.check_state(damaged), CheckpointError);
  resumed.load_state(Schedule::constant(1).state());
  EXPECT_EQ(resumed.lr(1), 1) << "the state of another kind starts it anew";
  Schedule constant = Schedule::constant(3);
  constant.load_state(s.state());
  EXPECT_EQ(constant.lr(9), 3);
}

TEST(ScheduleRules, AFunctionIsASchedule) {
  const Schedule s = [](std::int64_t k) { return k < 5 ? 0.5 : 0.25; };
  EXPECT_EQ(s.lr(4), 0.5);
  EXPECT_EQ(s.lr(5), 0.25);
  EXPECT_EQ(s.options().lr, 0.5) << "the highest rate";
  EXPECT_EQ(s.kind(), "custom");
  const Schedule warm([](std::int64_t k) { return 1.0 / static_cast<double>(k); }, 4);
  EXPECT_EQ(warm.lr(2), 0.5);
  EXPECT_EQ(warm.lr(4), 1);
  EXPECT_EQ(warm.lr(5), 1);
  EXPECT_EQ(warm.lr(6), 0.5);
  const Schedule bad = [](std::int64_t k) { return k == 3 ? -1.0 : 0.5; };
  EXPECT_THROW(bad.lr(3), ArgumentError);
}

TEST(ScheduleRules, AnyScheduleTakesAWarmup) {
  const Schedule cycle = Schedule::one_cycle(1, 10).with_warmup(4);
  EXPECT_DOUBLE_EQ(cycle.lr(2), Schedule::one_cycle(1, 10).lr(1) / 2);
  EXPECT_DOUBLE_EQ(cycle.lr(4 + 7), Schedule::one_cycle(1, 10).lr(7));
  Schedule plateau = Schedule::plateau(1, 0.5, 0).with_warmup(10);
  EXPECT_DOUBLE_EQ(plateau.lr(5), 0.5);
  for (const double loss : {1.0, 1.0}) plateau.observe(loss);
  EXPECT_DOUBLE_EQ(plateau.lr(5), 0.25);
  EXPECT_DOUBLE_EQ(plateau.lr(11), 0.5);
  const Schedule cosine = Schedule::cosine(1, 100).with_warmup(20);
  for (const std::int64_t k : {3, 20, 50, 100}) EXPECT_DOUBLE_EQ(cosine.lr(k), Schedule::cosine(1, 100, 0, 20).lr(k));
  EXPECT_THROW(Schedule::constant(1, 5).with_warmup(5), ArgumentError);
  EXPECT_THROW(Schedule::cosine(1, 100).with_warmup(100), ArgumentError);
}

/// The rates are those of PyTorch's OneCycleLR (2.15).
TEST(ScheduleRules, AOneCycleWhoseRiseIsShorterThanAnUpdateBeginsOnTheWayDown) {
  // PyTorch's OneCycleLR(optimizer, 0.1, total_steps=1) gives its lowest rate, so that a program can run for one step.
  EXPECT_DOUBLE_EQ(Schedule::one_cycle(0.1, 1).lr(1), 0.1 / 25 / 1e4);
  EXPECT_THROW(Schedule::one_cycle(0.1, 0), ArgumentError);
  const Schedule three = Schedule::one_cycle(0.1, 3), two = Schedule::one_cycle(0.1, 2);
  EXPECT_DOUBLE_EQ(three.lr(1), 0.09944154354509119);
  EXPECT_DOUBLE_EQ(three.lr(2), 0.046263710266697504);
  EXPECT_DOUBLE_EQ(three.lr(3), 4e-07);
  EXPECT_DOUBLE_EQ(two.lr(1), 0.0811745653949763);
  EXPECT_DOUBLE_EQ(two.lr(2), 4e-07);
  const Schedule five = Schedule::one_cycle(0.1, 5, 0.1, 10, 100);
  EXPECT_DOUBLE_EQ(five.lr(1), 0.09698764640825613);
  EXPECT_DOUBLE_EQ(five.lr(2), 0.07502500000000001);
}

TEST(ScheduleRules, ACycleWhoseLengthIsBeyondTheRangeOfIntegersDoesNotEnd) {
  const Schedule s = Schedule::cosine_restarts(1, 4, (std::int64_t{1} << 62) + 1);
  EXPECT_DOUBLE_EQ(s.lr(4), 0.5 * (1 + std::cos(0.75 * std::numbers::pi)));
  for (const std::int64_t k : {5, 8, 1000}) EXPECT_DOUBLE_EQ(s.lr(k), 1) << k;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(Schedule::cyclic(1, 0, kMost, kMost), ArgumentError);
  EXPECT_THROW(Schedule::wsd(1, 10, kMost, 0, kMost), ArgumentError);
}

TEST(ScheduleRules, PartsKeepTheirStates) {
  const auto make = [] {
    return Schedule::sequential({Schedule::constant(1), Schedule::chained({Schedule::plateau(1, 0.5, 0), Cautious{}})},
                                {3});
  };
  Schedule s = make(), resumed = make();
  for (const double loss : {1.0, 2.0, 3.0}) s.observe(loss);
  EXPECT_EQ(s.lr(3), 1);
  EXPECT_EQ(s.lr(4), 0.25 * 0.125) << "plateau after two drops, cautious after three";
  resumed.check_state(s.state());
  EXPECT_EQ(resumed.lr(4), 1);
  resumed.load_state(s.state());
  EXPECT_EQ(resumed.lr(4), s.lr(4));
  EXPECT_EQ(s.options().lr, 1) << "the highest rate";
  StateDict lacking;
  const StateDict state = s.state();
  for (const auto& [name, value] : state.values())
    if (!name.starts_with("rule/1/")) lacking.put(name, value);
  EXPECT_THROW(resumed.check_state(lacking), CheckpointError);
}

TEST(ScheduleRules, RatesAreFunctionsOfTheUpdateAloneInAnyOrder) {
  int calls = 0;
  const Schedule s = Schedule::multiplicative(1, [&](std::int64_t) {
    ++calls;
    return 0.5;
  });
  EXPECT_EQ(s.lr(5), 0.0625);
  EXPECT_EQ(s.lr(2), 0.5);
  EXPECT_EQ(s.lr(4), 0.125);
  EXPECT_EQ(calls, 4 + 1 + 2) << "it goes on from the last rate";
}

TEST(ScheduleRules, RatesAreConstantAfterTheLastStep) {
  EXPECT_DOUBLE_EQ(Schedule::polynomial(1, 10, 2, 0.1).lr(99), 0.1);
  EXPECT_DOUBLE_EQ(Schedule::ramp(2, 0.5, 0.25, 4).lr(99), 0.5);
  EXPECT_DOUBLE_EQ(Schedule::ramp(2, 0.5, 4, 4).options().lr, 8);
  EXPECT_THROW(Schedule::polynomial(1, 0), ArgumentError);
  EXPECT_THROW(Schedule::constant_then(1, 2), ArgumentError);
  EXPECT_THROW(Schedule::ramp(1, -1), ArgumentError);
  EXPECT_THROW(Schedule::cyclic(1, 2), ArgumentError);
  EXPECT_THROW(Schedule::cyclic(1, 0, 0), ArgumentError);
  EXPECT_THROW(Schedule::inverse_sqrt(1, 0), ArgumentError);
  EXPECT_THROW(Schedule::multiplicative(1, nullptr), ArgumentError);
  EXPECT_THROW(Schedule::sequential({Schedule::constant(1)}, {3}), ArgumentError);
  EXPECT_THROW(Schedule::sequential({Schedule::constant(1), Schedule::constant(1), Schedule::constant(1)}, {3, 3}),
               ArgumentError);
  EXPECT_THROW(Schedule::chained({}), ArgumentError);
  EXPECT_DOUBLE_EQ(Schedule::one_cycle(1, 10).lr(99), 1.0 / 25 / 1e4);
  const Schedule wsd = Schedule::wsd(1, 20, 5, 0.1, 4);
  EXPECT_DOUBLE_EQ(wsd.lr(2), 0.5);
  EXPECT_DOUBLE_EQ(wsd.lr(15), 1);
  EXPECT_DOUBLE_EQ(wsd.lr(20), 0.1);
  EXPECT_DOUBLE_EQ(wsd.lr(21), 0.1);
  EXPECT_THROW(Schedule::wsd(1, 5, 5, 0, 1), ArgumentError);
  EXPECT_THROW(Schedule::step(1, 0), ArgumentError);
  EXPECT_THROW(Schedule::multi_step(1, {3, 2}), ArgumentError);
  EXPECT_THROW(Schedule::exponential(1, 2), ArgumentError);
  EXPECT_THROW(Schedule::one_cycle(1, 10, 1.5), ArgumentError);
  EXPECT_THROW(Schedule::cosine_restarts(1, 0), ArgumentError);
  EXPECT_THROW(Schedule::lambda(1, nullptr), ArgumentError);
}

}  // namespace
}  // namespace binade::optim
