#include <gtest/gtest.h>

#include <algorithm>

#include "binade/amp/incident/report.h"
#include "binade/core/error.h"
#include "tests/amp/lab.h"

// Repro bundles: the files with which an incident can be replayed on another machine.
namespace binade::amp {
namespace {

using toy::Lab;

/// Returns the repro bundles of a run of `steps` steps.
std::vector<StateDict> bundles_of(const TrainerOptions& options, int steps, std::int64_t bad_sample = -1) {
  Lab run(options);
  run.bad_sample = bad_sample;
  std::vector<StateDict> capsules;
  run.trainer.set_repro_sink(
      [&](std::int64_t, std::int64_t, StateDict capsule) { capsules.push_back(std::move(capsule)); });
  for (int k = 0; k < steps; ++k) run.step();
  return capsules;
}

ReproReplay replayed(const TrainerOptions& options, const StateDict& capsule) {
  Lab elsewhere(options);
  return elsewhere.trainer.replay<toy::LabBatch>(capsule, [&](const toy::LabBatch& b) { return elsewhere.loss(b); });
}

TEST(Capsule, ReplayFindsTheBadSampleWithTheSameBits) {
  const std::vector<StateDict> capsules = bundles_of({}, 8, 17);
  ASSERT_EQ(capsules.size(), 1u);
  const ReproReplay replay = replayed({}, capsules[0]);
  EXPECT_TRUE(replay.same_bits);
  EXPECT_EQ(replay.incident.diagnosis.first_bad.value().sample_id, 17);
  EXPECT_EQ(replay.incident.diagnosis.cause, CauseClass::kBadInput);
}

TEST(Capsule, ContainsTheHeadroomOfTheStepsBefore) {
  Lab run({.precision = Policy::fp16()});
  StateDict capsule;
  run.trainer.set_repro_sink([&](std::int64_t, std::int64_t, StateDict taken) { capsule = std::move(taken); });
  for (int k = 0; k < 40; ++k) run.step();
  run.step([&](const toy::LabBatch& b) { return run.loss(b) * std::nan(""); });
  const StateDict history = capsule.section("amp/signs/forecast");
  EXPECT_NE(history.text("places").find("first\nlinear"), std::string::npos);
  for (const std::int64_t step : {4, 20, 40}) EXPECT_EQ(std::ranges::count(history.integers("steps"), step), 1);
  EXPECT_EQ(history.numbers("samples").size(), 32 * history.integers("dtypes").size());
}

TEST(Capsule, ContainsADamagedWeight) {
  const TrainerOptions options{.on_nan = OnNan::kSkip, .inject = {"nan-weight@step=2,path=first"}};
  Lab run(options);
  StateDict capsule;
  run.trainer.set_repro_sink([&](std::int64_t, std::int64_t, StateDict taken) { capsule = std::move(taken); });
  run.step();
  run.step();
  EXPECT_THROW(run.step(), NumericError);
  EXPECT_EQ(capsule.integer("capsule/step"), 3);
  EXPECT_TRUE(std::isnan(capsule.tensor("model/first.weight").at(0)));
}

TEST(Capsule, AnInjectedFaultIsInjectedInTheReplay) {
  const TrainerOptions options{.precision = Policy::fp16(),
                               .inject = {"scale-weight@step=3,path=second,factor=1e6,view=1"}};
  const std::vector<StateDict> capsules = bundles_of(options, 4);
  ASSERT_EQ(capsules.size(), 1u);
  const ReproReplay replay = replayed(options, capsules[0]);
  EXPECT_TRUE(replay.same_bits);
  EXPECT_EQ(replay.incident.diagnosis.first_bad.value().module, "second");
}

/// A user's batch type without state(), which cannot be stored.
struct BareBatch {
  Tensor x, target;
};

TEST(Capsule, WithoutABundleTheReportGivesTheReason) {
  {
    Lab alone({.on_nan = OnNan::kSkip});
    alone.bad_sample = 17;
    for (int k = 0; k < 8; ++k) alone.step();
    for (const Incident& one : alone.incidents()) EXPECT_EQ(one.no_capsule, "") << "nothing asked for one";
  }
  Lab run({.on_nan = OnNan::kSkip, .inject = {"nan-input@step=1,sample=2"}});
  const auto step = [&] {
    const toy::LabBatch batch = run.loader.next();
    return run.trainer.step(BareBatch{batch.x, batch.target}, [&](const BareBatch& b) {
      return apply_one<toy::SquaredError>({}, {run.model(b.x), Variable(b.target)});
    });
  };
  int capsules = 0;
  run.trainer.set_repro_sink([&](std::int64_t, std::int64_t, const StateDict&) { ++capsules; });
  const Incident incident = step().incident.value();
  EXPECT_EQ(capsules, 0);
  EXPECT_NE(incident.no_capsule.find("state()"), std::string::npos);
  EXPECT_NE(report_markdown(incident).find("**Repro bundle**: none"), std::string::npos);
  EXPECT_NE(report_json(incident).find("\"no_capsule\""), std::string::npos);
}

TEST(Capsule, ReplayReportsAnotherOutcome) {
  std::vector<StateDict> capsules = bundles_of({}, 8, 17);
  StateDict mended;
  const StateDict& capsule = capsules.at(0);
  for (const auto& [name, value] : capsule.values())
    mended.put(name, name == "batch/0/x" ? Tensor::zeros(capsule.tensor(name).shape()) : value);
  const ReproReplay replay = replayed({}, mended);
  EXPECT_FALSE(replay.same_bits);
  EXPECT_FALSE(replay.incident.diagnosis.first_bad.has_value());
}

TEST(Capsule, ACheckpointIsRefused) {
  Lab run({});
  const StateDict checkpoint = run.trainer.state();
  EXPECT_THROW(run.trainer.replay<toy::LabBatch>(checkpoint, [&](const toy::LabBatch& b) { return run.loss(b); }),
               CheckpointError);
}

}  // namespace
}  // namespace binade::amp
