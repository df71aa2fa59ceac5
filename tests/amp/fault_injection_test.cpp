#include "binade/amp/incident/fault_injection.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/amp/incident/report.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/error.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/layer_norm.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

/// A residual connection whose sum a norm reads in one op.
struct Residual : nn::Module {
  nn::Linear first{{.in = 4, .out = 16}}, second{{.in = 16, .out = 16}}, third{{.in = 16, .out = 2}};
  nn::LayerNorm norm{{.dim = 16}};
  void visit(nn::Visitor& v) override {
    v("first", first);
    v("second", second);
    v("third", third);
    v("norm", norm);
  }
  Variable forward(const Variable& x) override {
    const Variable h = first(x);
    return third(norm(second(h), h).y);
  }
};

/// Two norms whose results are concatenated.
struct SideBySide : nn::Module {
  nn::Linear first{{.in = 4, .out = 8}}, last{{.in = 16, .out = 2}};
  nn::BatchNorm1d left{{.channels = 8}}, right{{.channels = 8}};
  void visit(nn::Visitor& v) override {
    v("first", first);
    v("left", left);
    v("right", right);
    v("last", last);
  }
  Variable forward(const Variable& x) override {
    const auto buffer = std::make_shared<ops::ConcatBuffer>(16);
    const Variable h = first(x);
    return last(concat({left(h, Variable(), {buffer, 0}), right(h, Variable(), {buffer, 8})}));
  }
};

template <class Model>
struct DrillOf {
  Runtime runtime{{.seed = 3, .threads = 2}};
  Model model;
  optim::AdamW optimizer;
  Trainer trainer;

  explicit DrillOf(const std::vector<std::string>& faults, Policy policy = Policy::fp32())
      : optimizer(model, {.lr = 0.01}),
        trainer(runtime, model, optimizer,
                {.precision = std::move(policy), .state_hash = true, .on_nan = OnNan::kStop, .inject = faults}) {}
  StepResult step(std::uint32_t k) {
    return trainer.step(toy::batch(k), [&](const toy::Batch& b) {
      return apply_one<toy::SquaredError>({}, {model(b.x), Variable(b.target)});
    });
  }
  /// Runs steps up to `failing`, which must throw, and returns its incident.
  Incident incident_in(std::int64_t failing) {
    for (std::uint32_t k = 1; k < failing; ++k) EXPECT_TRUE(step(k).committed) << k;
    EXPECT_THROW(step(static_cast<std::uint32_t>(failing)), NumericError);
    return trainer.finished().back().incident.value_or(Incident{});
  }
};
using Drill = DrillOf<toy::Two>;

std::string message_of(const std::string& spec) {
  try {
    Drill drill({spec});
  } catch (const ArgumentError& e) {
    return e.what();
  }
  return "";
}

TEST(FaultInjection, BadSpecificationsAreErrorsThatNameTheNearestValidOne) {
  EXPECT_NE(message_of("nan-inptu@step=1,sample=0").find("did you mean nan-input"), std::string::npos);
  EXPECT_NE(message_of("nan-input@step=1,smaple=0").find("did you mean sample"), std::string::npos);
  EXPECT_NE(message_of("inf-grad@step=1,param=frist").find("did you mean"), std::string::npos);
  EXPECT_NE(message_of("nan-input@step=1").find("wants sample="), std::string::npos);
  EXPECT_NE(message_of("lr@step=one,factor=2").find("wanted a number for step"), std::string::npos);
  EXPECT_NE(message_of("lr@factor=2").find("step >= 1"), std::string::npos);
  EXPECT_NE(message_of("bitflip@step=1,path=third,op=linear").find("no module 'third'"), std::string::npos);
  EXPECT_NE(message_of("inf-grad@step=1,param=second,index=32").find("has 32 elements"), std::string::npos);
  EXPECT_EQ(message_of("inf-grad@step=1,param=first"), "") << "a module stands for its weight";
}

TEST(FaultInjection, RepeatedScalingOfWeightsTrainsIn16BitsToo) {
  for (const Policy& policy : {Policy::fp16(), Policy::pure_bf16()}) {
    Drill drill({"scale-weight@step=2,path=first,factor=1.01,every=1",
                 "scale-weight@step=3,path=second,factor=1.01,every=1"},
                policy);
    for (std::uint32_t k = 1; k <= 5; ++k) EXPECT_TRUE(drill.step(k).committed) << policy.name << ", step " << k;
  }
}

TEST(FaultInjection, ABadSampleIsAnIncidentOfADrill) {
  Drill drill({"nan-input@step=3,sample=6"});
  const Incident incident = drill.incident_in(3);
  EXPECT_TRUE(incident.drill);
  EXPECT_EQ(incident.diagnosis.first_bad.value().direction, "input");
  EXPECT_EQ(incident.diagnosis.first_bad.value().sample, 6);
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kBadInput);
  EXPECT_NE(report_json(incident).find(R"("drill":true)"), std::string::npos);
}

TEST(FaultInjection, OnceStrikesTheFirstAttemptAndEveryRepeatsByStep) {
  {
    Drill once({"nan-input@step=2,sample=1,once=1"});
    EXPECT_EQ(once.incident_in(2).diagnosis.cause, CauseClass::kNotReproducible) << "the replay does not have it";
    EXPECT_TRUE(once.step(2).committed) << "nor the step when it is tried again";
  }
  Drill every({"lr@step=2,every=2,factor=0.5"});
  std::vector<double> rates;
  for (std::uint32_t k = 1; k <= 5; ++k) rates.push_back(every.step(k).lr);
  EXPECT_EQ(rates, (std::vector<double>{0.01, 0.005, 0.01, 0.005, 0.01}));
}

TEST(FaultInjection, AFaultStrikesOnceAndWithAgainEachTime) {
  {
    Drill drill({"nan-input@step=2,sample=1"});
    EXPECT_EQ(drill.incident_in(2).diagnosis.cause, CauseClass::kBadInput) << "replays of the step have it";
    EXPECT_TRUE(drill.step(2).committed) << "the next batch for the same step does not";
  }
  Drill again({"nan-input@step=2,sample=1,again=1"});
  again.incident_in(2);
  EXPECT_THROW(again.step(2), NumericError);
  EXPECT_THROW(again.step(2), NumericError);
}

TEST(FaultInjection, AFaultThatStruckInAnEarlierProcessDoesNotStrikeAgain) {
  Drill drill({"lr@step=2,every=2,factor=0.5"});
  drill.trainer.faults().mark_struck("lr@step=2,every=2,factor=0.5", 2);
  std::vector<std::pair<std::string, std::int64_t>> seen;
  drill.trainer.faults().on_strike = [&](const std::string& spec, std::int64_t step) { seen.emplace_back(spec, step); };
  std::vector<double> rates;
  for (std::uint32_t k = 1; k <= 4; ++k) rates.push_back(drill.step(k).lr);
  EXPECT_EQ(rates, (std::vector<double>{0.01, 0.01, 0.01, 0.005}));
  EXPECT_EQ(seen, (std::vector<std::pair<std::string, std::int64_t>>{{"lr@step=2,every=2,factor=0.5", 4}}));
}

TEST(FaultInjection, AnInfiniteGradientIsReportedWithItsParameter) {
  Drill drill({"inf-grad@step=2,param=second,index=5"});
  const Incident incident = drill.incident_in(2);
  EXPECT_NE(incident.what.find("second.weight"), std::string::npos) << incident.what;
}

TEST(FaultInjection, ANanWeightFailsTheNextStep) {
  Drill drill({"nan-weight@step=2,path=first"});
  const Incident incident = drill.incident_in(3);
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kCorruptedState);
  EXPECT_EQ(incident.diagnosis.first_bad.value().parameter, "first.weight");
  EXPECT_EQ(incident.diagnosis.first_bad.value().step, 2);
  EXPECT_TRUE(incident.drill);
}

TEST(FaultInjection, ANanBufferIsWritten) {
  Drill buffer({"nan-buffer@step=2,path=seen"});
  buffer.step(1);
  buffer.step(2);
  EXPECT_TRUE(std::isnan(buffer.model.seen.committed().at(0)));
}

TEST(FaultInjection, AScaledViewOverflowsInTheOpAndKeepsTheWeight) {
  Drill view({"scale-weight@step=2,path=second,factor=1e6,view=1"}, Policy::fp16());
  view.step(1);
  const double before = view.model.second.weight.value().at(0);
  EXPECT_THROW(view.step(2), NumericError);
  const Incident incident = view.trainer.finished().back().incident.value_or(Incident{});
  EXPECT_EQ(incident.diagnosis.first_bad.value().module, "second");
  EXPECT_EQ(view.model.second.weight.value().at(0), before);
}

TEST(FaultInjection, AScaledWeightStaysScaled) {
  Drill stored({"scale-weight@step=2,path=second,factor=3"});
  stored.step(1);
  const double old = stored.model.second.weight.value().at(0);
  stored.step(2);
  EXPECT_NEAR(stored.model.second.weight.value().at(0), 3 * old, 0.02) << "one update of Adam moves it by 0.01";
}

TEST(FaultInjection, AConstantRowReachesANormWithAResidual) {
  DrillOf<Residual> drill({"constant-row@step=2,sample=5,path=norm", "drop-eps@step=2,path=norm"});
  const Incident incident = drill.incident_in(2);
  EXPECT_EQ(incident.diagnosis.first_bad.value().op, "add_layer_norm");
  EXPECT_EQ(incident.diagnosis.first_bad.value().sample, 5);
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kNormalizationSingularity);
}

TEST(FaultInjection, AFlippedBitIsNotReproducible) {
  Drill drill({"bitflip@step=2,path=second,op=linear"});
  drill.step(1);
  try {
    drill.step(2);  // 2^128 times too large: the loss overflows, or the update is refused
    FAIL() << "a flipped exponent bit went unseen";
  } catch (const NumericError&) {
    EXPECT_EQ(drill.trainer.finished().back().incident.value().diagnosis.cause, CauseClass::kNotReproducible);
  }
}

TEST(FaultInjection, AFlippedBitOfAChannelSliceIsNotReproducible) {
  DrillOf<SideBySide> drill({"bitflip@step=2,path=right,op=batch_norm"});
  EXPECT_EQ(drill.incident_in(2).diagnosis.cause, CauseClass::kNotReproducible);
}

}  // namespace
}  // namespace binade::amp
