#include <gtest/gtest.h>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/state_hash.h"
#include "binade/amp/verdict.h"
#include "binade/core/error.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/linear.h"
#include "binade/optim/ema.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

using toy::Training;

TrainerOptions hashed(Policy policy = Policy::fp32()) {
  return {.precision = std::move(policy),
          .ema = optim::EmaOptions{.decay = 0.9},
          .state_hash = true,
          .on_nan = OnNan::kStop};
}

TEST(StepTransaction, CommitsAndLearnsInEveryPrecision) {
  for (const char* name : {"fp32", "tf32", "fp16", "bf16", "pure-fp16", "pure-bf16"}) {
    Training run({.precision = Policy::by_name(name), .clip_norm = 1});
    double first = 0, last = 0;
    for (std::uint32_t k = 0; k < 200; ++k) {
      const StepResult r = run.step(k % 8);
      ASSERT_TRUE(r.committed) << name;
      (k < 8 ? first : last) += k < 8 || k >= 192 ? r.loss / 8 : 0;
    }
    EXPECT_LT(last, 0.4 * first) << name;
    EXPECT_EQ(run.trainer.steps(), 200);
    EXPECT_EQ(run.net.count.committed().at(0), 200);
  }
}

TEST(StepTransaction, AbortLeavesStateHashUnchanged) {
  Training run(hashed(Policy::fp16()));
  for (std::uint32_t k = 0; k < 3; ++k) run.step(k);
  EXPECT_THROW(run.step(toy::with_nan(toy::batch(3))), NumericError);
  const std::vector<StepResult> results = run.trainer.finished();
  ASSERT_EQ(results.size(), 4u);
  const StepResult& aborted = results.back();
  EXPECT_FALSE(aborted.committed);
  EXPECT_EQ(aborted.state_hash_before, results[2].state_hash_after);
  EXPECT_EQ(aborted.state_hash_after, aborted.state_hash_before);
  EXPECT_NE(results[2].state_hash_after, results[2].state_hash_before) << "a commit must change it";
  EXPECT_TRUE(std::isnan(aborted.loss));
  EXPECT_EQ(run.net.count.committed().at(0), 3);
  EXPECT_TRUE(all_finite(run.net.mean.committed()));
  ASSERT_TRUE(aborted.incident.has_value());
  EXPECT_EQ(aborted.incident->step, 4);
  EXPECT_TRUE(run.step(3).committed) << "training goes on after it";
}

TEST(StepTransaction, AnExceptionInTheClosureLeavesNoTrace) {
  Training run(hashed());
  run.step(0);
  const std::string before = run.trainer.state_hash();
  const auto thrower = [&](const toy::Batch& b) -> Variable {
    toy::loss(run.net, b);
    throw ShapeError("closure: wanted 1, got 2");
  };
  EXPECT_THROW(run.trainer.step(toy::batch(1), thrower), ShapeError);
  EXPECT_EQ(run.trainer.state_hash(), before);
  EXPECT_FALSE(run.net.mean.pending());
  EXPECT_TRUE(run.step(1).committed);
}

TEST(StepTransaction, AnInitialScaleOf2To32AbortsUntilItFits) {
  TrainerOptions options = hashed(Policy::fp16());
  options.loss_scale = LossScaleOptions::dynamic(0x1p32);
  std::vector<StepResult> results;
  {
    Training run(options);
    for (std::uint32_t k = 0; k < 20; ++k) EXPECT_TRUE(run.step(k).committed);
    results = run.trainer.finished();
    EXPECT_EQ(run.trainer.steps(), 20);
  }
  std::int64_t aborts = 0;
  double scale = 0x1p32;
  for (const StepResult& r : results) {
    EXPECT_EQ(r.loss_scale, scale);
    EXPECT_TRUE(std::isfinite(r.loss));
    EXPECT_FALSE(r.incident.has_value()) << "an overflow that the scale explains is no incident: " << *r.incident;
    if (r.committed) continue;
    ++aborts;
    scale /= 2;
    EXPECT_EQ(r.state_hash_before, r.state_hash_after);
    EXPECT_EQ(r.skipped_total, aborts);
  }
  EXPECT_GE(aborts, 12);
  EXPECT_EQ(results[0].attempt, 1);
  EXPECT_EQ(results[1].attempt, 2);
  EXPECT_EQ(results[1].step, 1);
}

TEST(StepTransaction, ANanThatALowerScaleResolvesIsAnOverflow) {
  Training run({.precision = Policy::fp16(), .loss_scale = LossScaleOptions::dynamic(0x1p20), .state_hash = true});
  run.net.fragile = 2.0;  // scaled gradients above 2 become NaN, so the scale must be halved several times
  EXPECT_TRUE(run.step(0).committed);
  const std::vector<StepResult> results = run.trainer.finished();
  ASSERT_GE(results.size(), 4u) << "more than one halving";
  for (std::size_t i = 1; i < results.size(); ++i) EXPECT_EQ(results[i].loss_scale, results[i - 1].loss_scale / 2);
  EXPECT_LT(run.trainer.scaler().scale(), 0x1p16);
}

TEST(StepTransaction, ANanAtEveryScaleDoesNotLowerTheScale) {
  Training run({.precision = Policy::fp16(), .state_hash = true, .on_nan = OnNan::kStop});
  run.step(0);
  run.net.fragile = 0.0;  // every gradient becomes NaN at every scale
  const std::string before = run.trainer.state_hash();
  try {
    run.step(1);
    FAIL() << "committed a NaN";
  } catch (const NumericError& e) {
    EXPECT_NE(std::string(e.what()).find("up.weight"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("step 2"), std::string::npos) << e.what();
  }
  EXPECT_EQ(run.trainer.scaler().scale(), 65536);
  EXPECT_EQ(run.trainer.scaler().overflows(), 0);
  EXPECT_EQ(run.trainer.state_hash(), before);
}

TEST(StepTransaction, AnOverflowAtAFixedScaleStopsWithAnError) {
  Training run({.precision = Policy::fp16(), .loss_scale = LossScaleOptions::fixed(0x1p40), .on_nan = OnNan::kStop});
  try {
    run.step(0);
    FAIL();
  } catch (const NumericError& e) {
    EXPECT_EQ(e.exit_code(), 30);
    EXPECT_NE(std::string(e.what()).find("fixed"), std::string::npos) << e.what();
  }
  EXPECT_EQ(run.trainer.steps(), 0);
}

TEST(StepTransaction, AnUpdateBeyondF16IsRefusedBeforeItIsWritten) {
  Training run({.precision = Policy::fp16(), .state_hash = true, .on_nan = OnNan::kStop}, 1, 1e5);
  try {
    run.step(0);
    FAIL() << "wrote an infinite copy";
  } catch (const NumericError& e) {
    EXPECT_NE(std::string(e.what()).find("65504"), std::string::npos) << e.what();
  }
  EXPECT_EQ(run.trainer.finished()[0].state_hash_before, run.trainer.state_hash());
  EXPECT_TRUE(all_finite(run.net.up.state()->low_copy(DType::f16)));
}

TEST(StepTransaction, NonFiniteStatisticsAbortAStepWithAFiniteLoss) {
  Training run({.state_hash = true, .on_nan = OnNan::kStop});
  const std::string before = run.trainer.state_hash();
  const auto closure = [&](const toy::Batch& b) {
    const Variable l = toy::loss(run.net, b);
    run.net.mean.writable().mutable_data<float>()[2] = INFINITY;
    return l;
  };
  try {
    run.trainer.step(toy::batch(0), closure);
    FAIL();
  } catch (const NumericError& e) {
    EXPECT_NE(std::string(e.what()).find("mean"), std::string::npos) << e.what();
  }
  EXPECT_EQ(run.trainer.state_hash(), before);
}

MicroBatches<toy::Batch> split(const toy::Batch& b, std::int64_t parts) {
  MicroBatches<toy::Batch> m;
  const std::int64_t rows = b.x.dim(0) / parts;
  for (std::int64_t i = 0; i < parts; ++i)
    m.batches.push_back({b.x.narrow(i * rows, rows), b.target.narrow(i * rows, rows)});
  return m;
}

TEST(StepTransaction, MicroBatchesGiveTheGradientOfTheWholeBatch) {
  double whole_norm = 0, parts_norm = 0;
  std::vector<float> whole, parts;
  {
    Training run;
    whole_norm = run.step(toy::batch(5, 24)).grad_norm;
    whole = run.net.down.value().to_vector<float>();
  }
  {
    Training run;
    parts_norm = run.step(split(toy::batch(5, 24), 3)).grad_norm;
    parts = run.net.down.value().to_vector<float>();
  }
  // 24 rows are summed in another order: gradients differ by a few times 2^-24. Adam's first update is nearly
  // lr sign(gradient), so the weights agree too.
  EXPECT_NEAR(parts_norm / whole_norm, 1, 1e-6);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-6);
}

TEST(StepTransaction, ABadMicroBatchIsLeftOutAndTheMeanIsOverTheOthers) {
  std::vector<float> with_bad, without;
  double norm_with = 0, norm_without = 0;
  MicroBatches<toy::Batch> all;
  for (const std::uint32_t k : {0u, 1u, 2u}) all.batches.push_back(toy::batch(k));
  {
    Training run({.precision = Policy::bf16(), .state_hash = true});
    MicroBatches<toy::Batch> bad = all;
    bad.batches[1] = toy::with_nan(bad.batches[1]);
    const StepResult r = run.step(bad);
    EXPECT_TRUE(r.committed);
    EXPECT_EQ(r.left_out, std::vector<int>{1});
    norm_with = r.grad_norm;
    with_bad = run.net.up.value().to_vector<float>();
    const std::vector<StepResult> results = run.trainer.finished();
    ASSERT_EQ(results.size(), 2u);
    ASSERT_TRUE(results[0].incident.has_value());
    EXPECT_EQ(results[0].state_hash_before, results[0].state_hash_after);
    EXPECT_EQ(run.net.count.committed().at(0), 2) << "statistics of the bad one do not count";
  }
  {
    Training run({.precision = Policy::bf16()});
    MicroBatches<toy::Batch> good;
    good.batches = {all.batches[0], all.batches[2]};
    norm_without = run.step(good).grad_norm;
    without = run.net.up.value().to_vector<float>();
  }
  EXPECT_EQ(norm_with, norm_without);
  EXPECT_EQ(with_bad, without);
}

TEST(StepTransaction, ABadMicroBatchStopsARunWithOnNanStop) {
  Training run({.state_hash = true, .on_nan = OnNan::kStop});
  MicroBatches<toy::Batch> parts;
  for (const std::uint32_t k : {0u, 1u, 2u}) parts.batches.push_back(toy::batch(k));
  parts.batches[1] = toy::with_nan(parts.batches[1]);
  const std::string before = run.trainer.state_hash();
  EXPECT_THROW(run.step(parts), NumericError);
  EXPECT_EQ(run.trainer.steps(), 0);
  EXPECT_EQ(run.trainer.state_hash(), before);
  const std::vector<StepResult> results = run.trainer.finished();
  ASSERT_EQ(results.size(), 1u);
  ASSERT_TRUE(results[0].incident.has_value());
  EXPECT_EQ(results[0].incident->remedy.action, RemedyAction::kStop);
}

TEST(StepTransaction, AMicroBatchWhoseGradientsAreNanAtAnyScaleIsLeftOutAtTheOldScale) {
  Training run({.precision = Policy::fp16(), .state_hash = true});
  MicroBatches<toy::Batch> parts;
  for (const std::uint32_t k : {0u, 1u, 2u}) parts.batches.push_back(toy::batch(k));
  const void* bad = parts.batches[2].x.raw();
  const StepResult r = run.trainer.step(parts, [&](const toy::Batch& b) {
    run.net.fragile = b.x.raw() == bad ? 0.0 : INFINITY;
    return toy::loss(run.net, b);
  });
  EXPECT_TRUE(r.committed);
  EXPECT_EQ(r.left_out, std::vector<int>{2});
  EXPECT_EQ(r.loss_scale, 65536);
  EXPECT_EQ(run.trainer.scaler().overflows(), 0);
  for (const StepResult& attempt : run.trainer.finished()) {
    if (attempt.committed) continue;
    EXPECT_EQ(attempt.state_hash_before, attempt.state_hash_after);
  }
}

TEST(StepTransaction, WhenEveryMicroBatchIsBadNothingIsCommitted) {
  Training run({.state_hash = true, .on_nan = OnNan::kStop});
  MicroBatches<toy::Batch> bad;
  for (const std::uint32_t k : {0u, 1u}) bad.batches.push_back(toy::with_nan(toy::batch(k)));
  const std::string before = run.trainer.state_hash();
  EXPECT_THROW(run.step(bad), NumericError);
  EXPECT_EQ(run.trainer.state_hash(), before);
}

TEST(StepTransaction, NoScaledGradientOutlivesItsStep) {
  Runtime runtime({.seed = 1});
  toy::Net net;
  net.up.requires_grad(false);
  net.bias.requires_grad(false);
  optim::Sgd optimizer({{"down.weight", net.down}}, {.lr = 0.01});
  Trainer trainer(
      runtime, net, optimizer,
      {.precision = Policy::fp16(), .loss_scale = LossScaleOptions::dynamic(0x1p20), .on_nan = OnNan::kSkip});
  const auto closure = [&](const toy::Batch& b) {
    EXPECT_FALSE(net.down.grad().defined()) << "of the step or the attempt before";
    return toy::loss(net, b);
  };
  for (const bool good : {true, true, false}) {
    const StepResult result = trainer.step(good ? toy::batch(1) : toy::with_nan(toy::batch(1)), closure);
    EXPECT_EQ(result.committed, good);
    EXPECT_FALSE(net.up.grad().defined());
    ASSERT_EQ(net.down.grad().defined(), good);
    if (!good) continue;
    double squares = 0;
    for (const double g : net.down.grad().to_vector<double>()) squares += g * g;
    EXPECT_NEAR(std::sqrt(squares), result.grad_norm, 1e-5 * result.grad_norm) << "without the loss scale";
  }
}

TEST(StepTransaction, EvaluationUsesAveragesAndDoesNotChangeTraining) {
  Training run(hashed(Policy::bf16()));
  for (std::uint32_t k = 0; k < 5; ++k) run.step(k);
  const std::string before = run.trainer.state_hash();
  const double average = run.trainer.evaluate([&] {
    EXPECT_FALSE(run.net.training());
    EXPECT_FALSE(grad_enabled());
    EXPECT_EQ(run.net.up.value().at(3), run.trainer.ema()->average(0).at(3));
    toy::loss(run.net, toy::with_nan(toy::batch(9)));
    return toy::loss(run.net, toy::batch(9)).item();
  });
  EXPECT_TRUE(std::isfinite(average));
  EXPECT_TRUE(run.net.training());
  EXPECT_EQ(run.trainer.state_hash(), before);
  EXPECT_NE(run.net.up.value().at(3), run.trainer.ema()->average(0).at(3));
}

/// Linear, batch norm with ReLU, linear.
struct NormNet : nn::Module {
  nn::Linear in{{.in = 4, .out = 8}}, head{{.in = 8, .out = 2}};
  nn::BatchNorm1d norm{{.channels = 8, .relu = true}};
  void visit(nn::Visitor& v) override {
    v("in", in);
    v("norm", norm);
    v("head", head);
  }
  Variable forward(const Variable& x) override { return head(norm(in(x))); }
};

/// Makes `steps` steps with an initial loss scale, then a step whose input is infinite. Returns the running mean and
/// variance.
std::vector<float> statistics_after(double init_scale, std::uint32_t steps, std::int64_t* aborted) {
  Runtime runtime({.seed = 2});
  NormNet net;
  optim::AdamW optimizer(net, {.lr = 0.01});
  TrainerOptions options = hashed(Policy::fp16());
  options.loss_scale = LossScaleOptions::dynamic(init_scale);
  Trainer trainer(runtime, net, optimizer, options);
  const auto closure = [&](const toy::Batch& b) {
    return apply_one<toy::SquaredError>({}, {net(b.x), Variable(b.target)});
  };
  for (std::uint32_t k = 0; k < steps; ++k) trainer.step(toy::batch(k), closure);
  toy::Batch bad = toy::batch(99);
  bad.x.mutable_data<float>()[3] = INFINITY;
  EXPECT_THROW(trainer.step(bad, closure), NumericError);
  for (const StepResult& r : trainer.finished()) {
    if (r.committed) continue;
    EXPECT_EQ(r.state_hash_before, r.state_hash_after) << "step " << r.step << " attempt " << r.attempt;
  }
  *aborted = trainer.skipped();
  EXPECT_EQ(net.norm.num_batches_tracked.committed().at(0), steps);
  std::vector<float> values = net.norm.running_mean.committed().to_vector<float>();
  for (const float x : net.norm.running_var.committed().to_vector<float>()) values.push_back(x);
  return values;
}

TEST(StepTransaction, BatchNormStatisticsChangeOnlyInCommits) {
  std::int64_t aborted = 0, aborted_high = 0;
  const std::vector<float> plain = statistics_after(256, 6, &aborted);
  const std::vector<float> high = statistics_after(0x1p32, 6, &aborted_high);
  EXPECT_EQ(aborted, 1) << "only the infinite input";
  EXPECT_GT(aborted_high, 8);
  for (const float x : plain) EXPECT_TRUE(std::isfinite(x));
  // The first update uses another loss scale. Powers of two change only gradients that are subnormal in f16.
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(high[i], plain[i], 2e-3);
}

TEST(StepTransaction, ABatchMayBeATensorOrAVariable) {
  const toy::Batch batch = toy::batch(0);
  const auto state_after = [&](const auto& inputs) {
    Training run;
    run.trainer.step(inputs, [&](const auto& x) {
      return apply_one<toy::SquaredError>({}, {run.net(x), Variable(batch.target)});
    });
    EXPECT_EQ(run.trainer.steps(), 1);
    return run.trainer.state_hash();
  };
  const auto expected = [&] {
    Training run;
    run.step(batch);
    return run.trainer.state_hash();
  }();
  EXPECT_EQ(state_after(Tensor(batch.x)), expected);
  EXPECT_EQ(state_after(Variable(batch.x)), expected);
}

TEST(StepTransaction, TheStateDoesNotDependOnTheNumberOfThreads) {
  std::string first;
  for (const int threads : {1, 2, 3, 4, 8}) {
    Training run(hashed(Policy::fp16()), threads);
    for (std::uint32_t k = 0; k < 5; ++k) run.step(k);
    if (first.empty()) first = run.trainer.state_hash();
    EXPECT_EQ(run.trainer.state_hash(), first) << threads;
  }
}

}  // namespace
}  // namespace binade::amp
