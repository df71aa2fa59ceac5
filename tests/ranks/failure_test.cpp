#include <gtest/gtest.h>

#include <atomic>

#include "binade/core/rank_tree.h"
#include "binade/nn/spectral_norm.h"
#include "tests/ranks/expect_error.h"
#include "tests/ranks/small_task.h"

namespace binade::ranks_test {
namespace {

constexpr ThreadRanksOptions kOptions{.deadline = std::chrono::seconds(60)};

/// Returns a sample of micro-batch `micro_batch` of step `step` that no earlier step contains.
std::int64_t sample_of(int step, int micro_batch) {
  io::Loader<Batch> loader({.batch = 4, .seed = 9, .samples = 150, .prefetch = 0},
                           [](const io::BatchOrigin& origin) { return make_batch(origin, -1); });
  for (int i = 0; i < 8 * (step - 1) + micro_batch; ++i) loader.next();
  return loader.next().origin.samples[2];
}

TEST(FailureOverRanks, APlantedNanIsLeftOutByAllRanksAndItsRankIsNamed) {
  const Runtime outer;
  for (const int micro_batch : {1, 5}) {
    Settings settings{
        .policy = "bf16", .steps = 4, .on_nan = amp::OnNan::kSkip, .bad_sample = sample_of(3, micro_batch)};
    const Outcome one = [&] {
      Outcome outcome;
      run_thread_ranks(
          1, [&](const auto& self) { outcome = train(self, settings); }, kOptions);
      return outcome;
    }();
    ASSERT_FALSE(one.incidents.empty());
    for (const int ranks : {2, 3, 8}) {
      int guilty = 0;
      while (!share_of(8, guilty, ranks).contains(micro_batch)) ++guilty;
      for (const Outcome& outcome : train_on_threads(ranks, settings)) {
        EXPECT_EQ(outcome, one) << ranks << " ranks";
        ASSERT_FALSE(outcome.incidents.empty());
        const amp::Incident& incident = outcome.incidents.front();
        EXPECT_NE(incident.what.find(fmt::format("in micro-batch {} of rank {}", micro_batch, guilty)),
                  std::string::npos)
            << incident.what;
        EXPECT_EQ(incident.remedy.action, amp::RemedyAction::kSkipBatch);
        ASSERT_TRUE(incident.diagnosis.first_bad);
        EXPECT_EQ(incident.diagnosis.first_bad->micro_batch, micro_batch);
        EXPECT_EQ(incident.diagnosis.first_bad->sample_id, settings.bad_sample);
        EXPECT_EQ(incident.diagnosis.cause, one.incidents.front().diagnosis.cause);
      }
    }
  }
}

TEST(FailureOverRanks, ARemedyIsThatOfOneRank) {
  const Runtime outer;
  const Settings settings{.steps = 4, .bad_sample = sample_of(2, 6)};
  Outcome one;
  run_thread_ranks(
      1, [&](const auto& self) { one = train(self, settings); }, kOptions);
  ASSERT_FALSE(one.incidents.empty());
  EXPECT_EQ(one.incidents.front().remedy.action, amp::RemedyAction::kQuarantineSample);
  for (const int ranks : {2, 4})
    for (const Outcome& outcome : train_on_threads(ranks, settings)) {
      EXPECT_EQ(outcome, one) << ranks << " ranks";
      EXPECT_EQ(outcome.incidents.size(), one.incidents.size());
      EXPECT_EQ(outcome.incidents.front().remedy.what, one.incidents.front().remedy.what);
    }
}

TEST(FailureOverRanks, WithoutRemediesAllRanksStopAndKeepTheStateBefore) {
  const std::int64_t bad = [] {
    const Runtime outer;
    return sample_of(2, 3);
  }();
  std::atomic<int> stopped = 0;
  run_thread_ranks(
      4,
      [&](const std::shared_ptr<Communicator>& self) {
        Training training(self, {.on_nan = amp::OnNan::kStop, .bad_sample = bad});
        training.steps(1);
        const std::string before = training.trainer.state_hash();
        test::expect_error<NumericError>([&] { training.steps(2); }, {"step 2", "in micro-batch 3 of rank 1"});
        ++stopped;
        EXPECT_EQ(training.trainer.steps(), 1);
        StateDict with_skip = training.trainer.state();
        EXPECT_EQ(with_skip.integer("progress/step"), 1);
        EXPECT_EQ(with_skip.integer("progress/skipped_total"), 1);
        EXPECT_NE(before, "");
      },
      kOptions);
  EXPECT_EQ(stopped, 4);
}

TEST(FailureOverRanks, AnExceptionOfOneClosureEndsTheStepOnAllRanks) {
  std::atomic<int> told = 0;
  test::expect_error<ShapeError>(
      [&] {
        run_thread_ranks(
            3,
            [&](const std::shared_ptr<Communicator>& self) {
              Training training(self, {.micro_batches = 3, .leaves = 3});
              training.trainer.attach(training.loader);  // its cursor is a part of the state
              const std::string before = training.trainer.state_hash();
              try {
                for (const auto& batch : training.trainer.batches(training.loader))
                  training.trainer.step(batch, [&](const Batch& b) -> Variable {
                    if (self->rank() == 1) throw ShapeError("the closure of rank 1 is broken");
                    return nn::mse(training.net(b.x), b.y);
                  });
              } catch (const RankError& error) {
                EXPECT_NE(std::string(error.what()).find("rank 1 ended step 1: the closure of rank 1 is broken"),
                          std::string::npos)
                    << error.what();
                ++told;
                EXPECT_EQ(training.trainer.state_hash(), before);
              }
            },
            kOptions);
      },
      {"the closure of rank 1 is broken"});
  EXPECT_EQ(told, 2);
}

TEST(FailureOverRanks, BadDataOfOneRankIsBadDataForAll) {
  run_thread_ranks(
      2,
      [&](const std::shared_ptr<Communicator>& self) {
        Training training(self, {.micro_batches = 2, .leaves = 2, .on_nan = amp::OnNan::kStop});
        test::expect_error<DataError>(
            [&] {
              for (const auto& batch : training.trainer.batches(training.loader))
                training.trainer.step(batch, [&](const Batch& b) -> Variable {
                  if (self->rank() == 1) throw DataError("label 12 of 10");
                  return nn::mse(training.net(b.x), b.y);
                });
            },
            {"rank 1: label 12 of 10"});
      },
      kOptions);
}

/// The rank that finds the cause of an incident sends it to the others whole.
TEST(FailureOverRanks, AllRanksKnowTheWordsOfAnOpThatRefusedItsInput) {
  const std::int64_t bad = [] {
    const Runtime outer;
    return sample_of(1, 1);  // in the second micro-batch, which rank 1 computes
  }();
  run_thread_ranks(
      2,
      [&](const std::shared_ptr<Communicator>& self) {
        Training training(self, {.micro_batches = 2, .leaves = 2});
        for (const auto& batch : training.trainer.batches(training.loader)) {
          const amp::StepResult result = training.trainer.step(batch, [&](const Batch& b) -> Variable {
            std::vector<std::int64_t> labels;
            for (const std::int64_t sample : b.origin.samples) labels.push_back(sample == bad ? 99 : sample % 2);
            return nn::cross_entropy(training.net(b.x), Tensor::from(labels, Shape{std::ssize(labels)}));
          });
          ASSERT_FALSE(result.earlier.empty());
          ASSERT_TRUE(result.earlier.front().incident);
          const amp::Diagnosis& diagnosis = result.earlier.front().incident->diagnosis;
          EXPECT_EQ(diagnosis.cause, amp::CauseClass::kBadInput);
          ASSERT_TRUE(diagnosis.first_bad);
          EXPECT_NE(diagnosis.first_bad->refusal.find("99"), std::string::npos) << diagnosis.first_bad->refusal;
          break;
        }
      },
      kOptions);
}

TEST(FailureOverRanks, OtherSettingsOfOneRankAreNamed) {
  test::expect_error<RankError>(
      [] {
        run_thread_ranks(
            2,
            [](const std::shared_ptr<Communicator>& self) {
              Training training(self, {.micro_batches = 2, .leaves = 2});
              if (self->rank() == 1) training.optimizer.set_lr(0.02);
              training.steps(1);
            },
            kOptions);
      },
      {"rank 1 and rank 0 disagree about the learning rate in step 1"});
}

TEST(FailureOverRanks, WeightsThatDifferAreFoundAtTheNextStep) {
  test::expect_error<RankError>(
      [] {
        run_thread_ranks(
            2,
            [](const std::shared_ptr<Communicator>& self) {
              Training training(self, {.micro_batches = 2, .leaves = 2});
              training.steps(1);
              StateDict saved = training.trainer.state();
              if (self->rank() == 1) training.trainer.load_state(saved);  // loses the norm of the last step
              training.steps(2);
            },
            kOptions);
      },
      {"rank 1 and rank 0 disagree about the gradient norm of the last step in step 2"});
}

/// A network with a buffer that changes from one micro-batch to the next.
struct Spectral : nn::Module {
  nn::SpectralNorm<nn::Linear> layer{nn::Linear({.in = 6, .out = 2})};
  void visit(nn::Visitor& v) override { v("layer", layer); }
  Variable forward(const Variable& x) override { return layer(x); }
};

TEST(FailureOverRanks, ASpectralNormIsRefused) {
  test::expect_error<ArgumentError>(
      [] {
        run_thread_ranks(
            2,
            [](const std::shared_ptr<Communicator>& self) {
              Runtime runtime({.seed = 1, .threads = 1});
              Spectral net;
              optim::AdamW optimizer(net);
              amp::Trainer trainer(runtime, net, optimizer, {.accumulate = 2, .ranks = self});
              io::Loader<Batch> loader({.batch = 4, .samples = 20, .prefetch = 0},
                                       [](const io::BatchOrigin& origin) { return make_batch(origin, -1); });
              for (const auto& batch : trainer.batches(loader))
                trainer.step(batch, [&](const Batch& b) { return nn::mse(net(b.x), b.y); });
            },
            kOptions);
      },
      {"has changed the buffer layer.", "nn::SharesBuffers"});
}

}  // namespace
}  // namespace binade::ranks_test
