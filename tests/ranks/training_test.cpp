#include <gtest/gtest.h>

#include "tests/ranks/expect_error.h"
#include "tests/ranks/small_task.h"

namespace binade::ranks_test {
namespace {

class OverRanks : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Policies, OverRanks, testing::Values("fp32", "bf16", "fp16"),
                         [](const auto& policy) { return policy.param; });

void expect_equal(const Outcome& got, const Outcome& wanted, const std::string& where) {
  ASSERT_EQ(got.steps.size(), wanted.steps.size()) << where;
  for (std::size_t i = 0; i < got.steps.size(); ++i)
    ASSERT_EQ(got.steps[i], wanted.steps[i]) << where << ", line " << i;
  EXPECT_EQ(got.state_hash, wanted.state_hash) << where;
  EXPECT_EQ(got.checkpoint, wanted.checkpoint) << where;
}

void expect_all_equal(const Settings& settings, std::initializer_list<int> sizes, const Outcome& wanted) {
  for (const int ranks : sizes) {
    const std::vector<Outcome> outcomes = train_on_threads(ranks, settings);
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
      expect_equal(outcomes[rank], wanted, fmt::format("rank {} of {}", rank, ranks));
  }
}

TEST_P(OverRanks, EveryNumberOfRanksHasTheBitsOfOneRank) {
  const Settings settings{.policy = GetParam()};
  const Outcome one = train(alone(), settings);
  EXPECT_GT(one.checkpoint.size(), 1000u);
  expect_all_equal(settings, {1, 2, 3, 4, 8}, one);
}

TEST_P(OverRanks, LeavesOfSeveralMicroBatchesAndUnevenSharesHaveTheBitsOfOneRank) {
  const Settings settings{.policy = GetParam(), .micro_batches = 7, .leaves = 5, .steps = 6};
  expect_all_equal(settings, {2, 3, 5}, train(alone(), settings));
}

TEST(OverRanksOnly, WithoutLeavesTheMicroBatchesAreTheLeaves) {
  Settings settings{.leaves = 8, .steps = 4};
  const Outcome one = train(alone(), settings);
  settings.leaves = 0;
  expect_all_equal(settings, {2, 4}, one);
}

TEST(OverRanksOnly, OneLeafKeepsTheBitsOfASumInOrder) {
  Settings settings{.leaves = 1, .steps = 4};
  const Outcome one = train(alone(), settings);
  settings.leaves = 0;
  expect_equal(train(alone(), settings), one, "without leaves");
  settings.leaves = 8;
  EXPECT_NE(train(alone(), settings).state_hash, one.state_hash) << "8 leaves add in another order";
}

TEST(OverRanksOnly, RandomDelaysChangeNothing) {
  const Settings settings{.policy = "fp16", .steps = 4};
  const Outcome one = train(alone(), settings);
  for (const std::uint64_t seed : {1, 2, 3})
    for (const Outcome& outcome : train_on_threads(4, settings, seed))
      expect_equal(outcome, one, fmt::format("delays {}", seed));
}

TEST(OverRanksOnly, StatisticsMoveByAllMicroBatchesInOrder) {
  // Independent of the trainer: the running mean by hand, in float, from the batch means of one rank's micro-batches.
  const Settings settings{.micro_batches = 4, .leaves = 4, .steps = 1};
  std::vector<float> wanted(24, 0.0f);
  {
    Training training(alone(), settings);
    io::Loader<Batch> loader({.batch = 4, .seed = 9, .samples = 150, .content = "small", .prefetch = 0},
                             [](const io::BatchOrigin& origin) { return make_batch(origin, -1); });
    for (int i = 0; i < 4; ++i) {
      const Tensor h = training.net.in(loader.next().x).value();
      for (std::size_t c = 0; c < wanted.size(); ++c) {
        double sum = 0;
        for (std::int64_t row = 0; row < 4; ++row) sum += h.at(24 * row + static_cast<std::int64_t>(c));
        wanted[c] = 0.9f * wanted[c] + 0.1f * static_cast<float>(sum / 4);
      }
    }
  }
  run_thread_ranks(2,
                   [&](const std::shared_ptr<Communicator>& self) {
                     Training training(self, settings);
                     training.steps(1);
                     EXPECT_EQ(training.net.norm.num_batches_tracked.committed().item(), 4);
                     for (std::size_t c = 0; c < wanted.size(); ++c)
                       EXPECT_NEAR(training.net.norm.running_mean.committed().at(static_cast<std::int64_t>(c)),
                                   wanted[c], 1e-6);
                   },
                   {.deadline = std::chrono::seconds(60)});
}

TEST(OverRanksOnly, ARunGoesOnWithAnotherNumberOfRanks) {
  const Settings settings{.policy = "fp16", .leaves = 0, .steps = 9};
  Settings one_rank = settings;
  one_rank.leaves = 8;
  const Outcome undisturbed = train(alone(), one_rank);
  for (const int before : {2, 4})
    for (const int after : {1, 3, 8}) {
      StateDict saved;
      run_thread_ranks(before,
                       [&](const std::shared_ptr<Communicator>& self) {
                         Training training(self, settings);
                         training.steps(5);
                         if (self->rank() == 0) saved = training.trainer.state();
                       },
                       {.deadline = std::chrono::seconds(60)});
      run_thread_ranks(after,
                       [&](const std::shared_ptr<Communicator>& self) {
                         Training training(self, settings);
                         training.trainer.attach(training.loader);
                         training.trainer.load_state(saved);
                         EXPECT_TRUE(training.trainer.changes().empty());
                         training.steps(9);
                         EXPECT_EQ(training.finished().state_hash, undisturbed.state_hash) << before << " -> " << after;
                       },
                       {.deadline = std::chrono::seconds(60)});
    }
}

TEST(OverRanksOnly, MicroBatchesWithoutALoaderAreSharedToo) {
  const auto hash_on = [](const std::shared_ptr<Communicator>& ranks) {
    Training training(ranks, {.micro_batches = 4, .leaves = 4});
    io::Loader<Batch> loader({.batch = 4, .seed = 9, .samples = 150, .prefetch = 0},
                             [](const io::BatchOrigin& origin) { return make_batch(origin, -1); });
    for (int step = 0; step < 3; ++step) {
      amp::MicroBatches<Batch> all;
      for (int i = 0; i < 4; ++i) all.batches.push_back(loader.next());
      training.trainer.step(all, [&](const Batch& b) { return nn::mse(training.net(b.x), b.y); });
    }
    return training.trainer.state_hash();
  };
  const std::string wanted = hash_on(alone());
  run_thread_ranks(3, [&](const std::shared_ptr<Communicator>& self) { EXPECT_EQ(hash_on(self), wanted); },
                   {.deadline = std::chrono::seconds(60)});
}

TEST(OverRanksOnly, MoreRanksThanMicroBatchesAreRefusedWithTheNumberThatWouldDo) {
  test::expect_error<ArgumentError>([] { train_on_threads(3, {.micro_batches = 2, .leaves = 0}); },
                                    {"3 ranks", "which has 2", "at most 2 ranks"});
}

TEST(OverRanksOnly, VerificationFindsNothingAndChangesNothing) {
  const Settings settings{.steps = 3, .verify_every = 2};
  expect_all_equal(settings, {2}, train(alone(), settings));
}

}  // namespace
}  // namespace binade::ranks_test
