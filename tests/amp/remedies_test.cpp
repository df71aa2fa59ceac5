#include <gtest/gtest.h>

#include <filesystem>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/step/remediation_policy.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "binade/io/checkpoint/file.h"
#include "binade/run/training_run.h"
#include "tests/amp/lab.h"
#include "tests/io/scratch_folder.h"

// Remedies for faults in a run with the remediation policy, and the state of the run afterwards.
namespace binade::amp {
namespace {

using toy::Lab;

TEST(Remedies, ABadSampleIsQuarantinedAndTheStepCommits) {
  Lab run({});
  run.bad_sample = 17;
  for (int k = 0; k < 24; ++k) EXPECT_TRUE(run.step().committed) << k;  // three epochs
  const std::vector<Incident> incidents = run.incidents();
  ASSERT_EQ(incidents.size(), 1u) << "it never comes again";
  EXPECT_EQ(incidents[0].remedy.action, RemedyAction::kQuarantineSample);
  EXPECT_EQ(incidents[0].remedy.target, "17");
  EXPECT_TRUE(incidents[0].remedy.verified);
  EXPECT_EQ(incidents[0].diagnosis.first_bad.value().sample_id, 17);
  EXPECT_EQ(run.trainer.state().integers("data/quarantine"), StateDict::Integers{17});
}

TEST(Remedies, AStepResultContainsItsIncidents) {
  Lab run({});
  run.bad_sample = 17;
  std::size_t incidents = 0;
  for (int k = 0; k < 8; ++k) {
    const StepResult result = run.step();
    EXPECT_TRUE(result.committed && !result.incident);
    if (result.earlier.empty()) continue;
    ASSERT_EQ(result.incidents().size(), 1u);
    EXPECT_EQ(result.incidents()[0]->remedy.action, RemedyAction::kQuarantineSample);
    EXPECT_EQ(result.attempt, static_cast<std::int64_t>(result.earlier.size()) + 1);
    ++incidents;
  }
  EXPECT_EQ(incidents, 1u);
}

TEST(Remedies, AQuarantineSurvivesAResume) {
  StateDict half_way;
  std::string whole;
  {
    Lab first({});
    first.bad_sample = 17;
    for (int k = 0; k < 8; ++k) first.step();
    half_way = first.trainer.state();
    for (int k = 0; k < 8; ++k) first.step();
    whole = first.trainer.state_hash();
  }
  Lab second({});
  second.bad_sample = 17;
  second.trainer.load_state(half_way);
  for (int k = 0; k < 8; ++k) EXPECT_TRUE(second.step().committed);
  EXPECT_EQ(second.incidents().size(), 0u);
  EXPECT_EQ(second.trainer.state_hash(), whole);
}

TEST(Remedies, AnOverflowingOpIsPromotedAndLaterDemoted) {
  Lab run({.precision = Policy::fp16(), .remediation = {.promoted_steps = 5}});
  double factor = 1;
  const auto closure = [&](const toy::LabBatch& b) {
    const Variable h = run.model.second(relu(run.model.first(Variable(b.x)) * factor));
    return apply_one<toy::SquaredError>({}, {h * (1 / factor), Variable(b.target)});
  };
  EXPECT_TRUE(run.step(closure).committed);
  factor = 1e5;
  EXPECT_TRUE(run.step(closure).committed);
  const std::vector<Incident> incidents = run.incidents();
  ASSERT_FALSE(incidents.empty());
  EXPECT_EQ(incidents[0].remedy.action, RemedyAction::kPromoteOp);
  EXPECT_TRUE(incidents[0].remedy.verified);
  EXPECT_EQ(run.trainer.remediation().promotions().front().until, 6);
  for (int k = 0; k < 6; ++k) EXPECT_TRUE(run.step(closure).committed);
  EXPECT_TRUE(run.trainer.remediation().promotions().front().active) << "it is still needed";
  EXPECT_LE(run.incidents().size(), 1u) << "whether an operand fits is only known when it is tried";
  factor = 1;
  for (int k = 0; k < 8; ++k) EXPECT_TRUE(run.step(closure).committed);
  for (const RemediationPolicy::Promotion& p : run.trainer.remediation().promotions())
    EXPECT_FALSE(p.active) << p.target;
}

TEST(Remedies, AFixedScaleThatIsTooLargeIsLowered) {
  Lab run({.precision = Policy::fp16(), .loss_scale = LossScaleOptions::fixed(0x1p40)});
  EXPECT_TRUE(run.step().committed);
  const std::vector<Incident> incidents = run.incidents();
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].remedy.action, RemedyAction::kLowerScale);
  EXPECT_LT(run.trainer.scaler().scale(), 0x1p24);
  EXPECT_GT(run.trainer.scaler().scale(), 0x1p8) << "the largest that fits, not the floor";
}

TEST(Remedies, AFaultInEveryBatchStopsAfterABoundedNumberOfSkips) {
  Lab run({});
  const auto closure = [&](const toy::LabBatch& b) { return run.loss(b) - mean(log(relu(-square(run.model(b.x))))); };
  for (int k = 0; k < 5; ++k) {
    const StepResult skipped = run.step(closure);
    EXPECT_FALSE(skipped.committed);
    EXPECT_EQ(skipped.attempt, k + 1);
    EXPECT_EQ(skipped.incident.value().remedy.action, RemedyAction::kSkipBatch);
    EXPECT_EQ(skipped.incident->diagnosis.cause, CauseClass::kArithmeticSingularity);
    EXPECT_EQ(skipped.incident->diagnosis.confidence, Confidence::kProven);
  }
  EXPECT_THROW(run.step(closure), NumericError);
  EXPECT_EQ(run.trainer.steps(), 0);
}

TEST(Remedies, SkipTakesTheNextBatchForEveryCause) {
  Lab run({.on_nan = OnNan::kSkip});
  run.bad_sample = 17;
  int committed = 0, passed_over = 0;
  for (int k = 0; k < 16; ++k) (run.step().committed ? committed : passed_over) += 1;
  EXPECT_EQ(passed_over, 2) << "once an epoch";
  EXPECT_EQ(run.trainer.steps(), committed);
}

TEST(Remedies, AFaultThatIsNotReproducibleRunsTheStepAgain) {
  std::string undisturbed;
  {
    Lab clean({});
    for (int k = 0; k < 4; ++k) clean.step();
    undisturbed = clean.trainer.state_hash();
  }
  Lab run({.inject = {"bitflip@step=2,path=second,op=linear"}});
  for (int k = 0; k < 4; ++k) EXPECT_TRUE(run.step().committed);
  const std::vector<Incident> incidents = run.incidents();
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].diagnosis.cause, CauseClass::kNotReproducible);
  EXPECT_EQ(run.trainer.state_hash(), undisturbed);
}

TEST(Remedies, AnAbsurdLossSkipsTheBatchUnlessTheDataHasChanged) {
  Lab run({});
  double factor = 1;
  const auto closure = [&](const toy::LabBatch& b) { return run.loss(b) * factor; };
  for (int k = 0; k < 40; ++k) EXPECT_TRUE(run.step(closure).committed);
  EXPECT_EQ(run.incidents().size(), 0u);
  factor = 1e4;
  EXPECT_FALSE(run.step(closure).committed);
  factor = 1;
  EXPECT_TRUE(run.step(closure).committed) << "one batch was to blame";
  std::vector<Incident> incidents = run.incidents();
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].remedy.action, RemedyAction::kSkipBatch);
  factor = 1e4;
  const std::int64_t before = run.trainer.steps();
  for (int k = 0; k < 10; ++k) run.step(closure);
  EXPECT_EQ(run.trainer.steps(), before + 10) << "the data is like that now";
  EXPECT_TRUE(run.incidents().empty());
}

TEST(Remedies, TheRemediationPolicyIsPartOfTheState) {
  RemediationPolicy ladder({.promoted_steps = 10});
  EXPECT_EQ(ladder.promote("a/linear", 5), 14);
  EXPECT_EQ(ladder.promote("a/linear", 6), 0) << "it holds already";
  ladder.rolled_back(50, 40, true);
  EXPECT_EQ(ladder.rollback_floor(60), 40) << "the next one must get further";
  RemediationPolicy loaded;
  loaded.load_state(ladder.state());
  EXPECT_EQ(loaded.promotions().front().until, 14);
  EXPECT_EQ(loaded.lr_factor(41), 0.5);
  EXPECT_EQ(loaded.lr_factor(251), 1);
  EXPECT_TRUE(ladder.may_roll_back(60));
  ladder.rolled_back(60, 45, false);
  ladder.rolled_back(61, 46, false);
  EXPECT_FALSE(ladder.may_roll_back(70)) << "three within a thousand steps";
  EXPECT_TRUE(ladder.may_roll_back(1100));
}

class Rollback : public testing::Test {
 protected:
  io::ScratchFolder folder;
  RunOptions options(std::int64_t steps) {
    return {.folder = folder.path("run"), .steps = steps, .checkpoint_every = 5, .log_every = 1000};
  }
  /// Trains to the end and returns the hash of the state.
  std::string train(Lab& run, std::int64_t steps, const std::string& name) {
    RunOptions o = options(steps);
    o.folder = folder.path(name);
    TrainingRun training(run.trainer, o);
    training.resume_if_possible();
    for (const auto& batch : training.batches(run.loader))
      training.step(batch, [&](const toy::LabBatch& b) { return run.loss(b); });
    return run.trainer.state_hash();
  }
};

TEST_F(Rollback, AfterADamagedWeightTheRunEndsWithTheBitsOfACleanRun) {
  std::string clean, harmed;
  {
    Lab run({});
    clean = train(run, 20, "clean");
  }
  Lab run({.inject = {"nan-weight@step=12,path=first,once=1"}});
  harmed = train(run, 20, "harmed");
  EXPECT_EQ(harmed, clean);
  EXPECT_TRUE(std::filesystem::exists(folder.path("harmed/incidents/000000000013/report.json")));
  EXPECT_NE(folder.read("harmed/incidents/000000000013/report.json").find(R"("action":"rollback")"), std::string::npos);
}

TEST_F(Rollback, AnUpdateThatRuinsTheWeightsIsUndoneAndLowersTheRate) {
  Lab run({.inject = {"lr@step=62,factor=20000,once=1"}});
  train(run, 80, "run");
  double worst = 0;
  for (int k = 0; k < 8; ++k) worst = std::max(worst, run.step().loss);
  EXPECT_LT(worst, 1) << "as good as before";
  EXPECT_EQ(run.trainer.remediation().lr_factor(run.trainer.steps() + 1), 0.5);
}

/// Returns a checkpoint's state with the state of another remediation policy.
StateDict with_remediation(const StateDict& state, const RemediationPolicy& ladder) {
  StateDict result;
  for (const auto& [name, value] : state.values())
    if (!name.starts_with("amp/ladder/")) result.put(name, value);
  result.merge("amp/ladder", ladder.state());
  return result;
}

TEST_F(Rollback, HasTheBitsOfAResumeThatSkipsTheSameBatches) {
  std::int64_t drawn = 0, passed_over = 0, failed_step = 0, kept_step = 0;
  std::string kept;
  std::vector<std::string> hashes;  // after the rollback and after each later step
  {
    Lab hit({.inject = {"lr@step=62,factor=20000,once=1"}});
    TrainingRun training(hit.trainer, options(80));
    for (const auto& batch : training.batches(hit.loader)) {
      ++drawn;
      const StepResult result = training.step(batch, [&](const toy::LabBatch& b) { return hit.loss(b); });
      if (result.incident && result.incident->remedy.action == RemedyAction::kRollback) {
        ASSERT_EQ(failed_step, 0) << "one rollback mends it";
        failed_step = result.step;
        passed_over = drawn - 1;  // not the latest batch: it only revealed bad weights, and is used again
        kept_step = hit.trainer.steps();
        kept = result.incident->remedy.target;
      }
      if (failed_step > 0) hashes.push_back(hit.trainer.state_hash());
    }
  }
  ASSERT_EQ(failed_step, 63);
  ASSERT_EQ(hashes.size(), static_cast<std::size_t>(80 - kept_step + 1));

  // After the rollback the run saved its state under the same file name. So the checkpoint to which it rolled back was
  // renamed.
  const StateDict state = io::load_checkpoint(folder.path("run/checkpoints/" + kept + ".abandoned-1")).state;
  RemediationPolicy ladder;
  ladder.load_state(state.section("amp/ladder"));
  ladder.rolled_back(failed_step - 1, kept_step, true);
  Lab resumed({});
  resumed.trainer.load_state(with_remediation(state, ladder));
  for (std::int64_t k = kept_step; k < passed_over; ++k) resumed.loader.commit(resumed.loader.next().origin);
  EXPECT_EQ(resumed.trainer.state_hash(), hashes[0]);
  for (std::size_t k = 1; k < hashes.size(); ++k) {
    ASSERT_TRUE(resumed.step().committed);
    ASSERT_EQ(resumed.trainer.state_hash(), hashes[k]) << "step " << resumed.trainer.steps();
  }
}

TEST_F(Rollback, AnInjectedFaultDoesNotStrikeAgainAfterARollback) {
  std::string clean, harmed;
  {
    Lab run({});
    clean = train(run, 20, "clean");
  }
  Lab run({.inject = {"nan-weight@step=12,path=first"}});
  harmed = train(run, 20, "harmed");
  EXPECT_EQ(harmed, clean);
}

TEST_F(Rollback, ARepeatedDamageStopsTheRun) {
  Lab run({.inject = {"nan-weight@step=12,path=first,again=1"}});
  EXPECT_THROW(train(run, 20, "run"), NumericError);
}

}  // namespace
}  // namespace binade::amp
