#include "binade/io/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "binade/core/error.h"
#include "binade/io/data/batch_order.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Indices = std::vector<std::int64_t>;

std::map<std::int64_t, int> counts_of(const Sampler& sampler, std::int64_t epochs) {
  std::map<std::int64_t, int> counts;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch)
    for (const std::int64_t i : sampler.indices(epoch)) ++counts[i];
  return counts;
}

Indices sorted(Indices all) {
  std::ranges::sort(all);
  return all;
}

Indices first_numbers(std::int64_t n) { return SequentialSampler(n).indices(0); }

TEST(Sampler, ShuffledAgreesWithTheOrderOfALoader) {
  BatchOrder order({.batch = 7, .seed = 3, .samples = 7});
  const ShuffledSampler sampler(7, 3);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(order.batch_at(static_cast<std::uint64_t>(7 * epoch)).samples, sampler.indices(epoch));
}

// A resume refuses a sampler with another name. So samplers with different orders must have different names.
TEST(Sampler, NamesTellOrdersApart) {
  const auto weighted = [](std::uint64_t seed, bool replacement) {
    return WeightedSampler({.weights = {1, 2, 3}, .replacement = replacement, .seed = seed}).name();
  };
  const auto buckets = [](std::uint64_t seed, bool shuffle) {
    return BucketBatchSampler({.lengths = {1, 2, 3}, .tokens = 4, .shuffle = shuffle, .seed = seed}).name();
  };
  const auto mixture = [](Indices sizes, std::uint64_t seed) {
    return MixtureSampler({.sizes = std::move(sizes), .weights = {1, 1}, .seed = seed}).name();
  };
  const std::vector<std::string> names{SequentialSampler(3).name(),
                                       SequentialSampler(4).name(),
                                       ShuffledSampler(3, 1).name(),
                                       ShuffledSampler(3, 2).name(),
                                       weighted(1, true),
                                       weighted(2, true),
                                       weighted(1, false),
                                       buckets(1, true),
                                       buckets(2, true),
                                       buckets(1, false),
                                       mixture({2, 4}, 1),
                                       mixture({4, 2}, 1),
                                       mixture({2, 4}, 2)};
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(buckets(1, false), buckets(2, false)) << "in order: the seed does not count";
}

// 40000 draws: a count of expectation n p has the standard deviation sqrt(n p (1 - p)) <= 100; 5 of them are allowed.
TEST(WeightedSampler, WithReplacementDrawsByTheWeights) {
  const WeightedSampler sampler({.weights = {1, 0, 3, 4, 2}, .epoch = 400, .seed = 7});
  const auto counts = counts_of(sampler, 100);
  EXPECT_FALSE(counts.contains(1)) << "weight 0";
  const double weights[] = {1, 0, 3, 4, 2};
  for (const auto& [i, n] : counts) {
    const double p = weights[i] / 10;
    EXPECT_NEAR(n, 40000 * p, 5 * std::sqrt(40000 * p * (1 - p))) << "sample " << i;
  }
  EXPECT_NE(sampler.indices(0), sampler.indices(1));
  EXPECT_EQ(sampler.indices(5), sampler.indices(5));
}

// The probabilities of the first two draws without replacement, computed by hand: p(i) and p(i) p(j) / (1 - p(i)).
TEST(WeightedSampler, WithoutReplacementDrawsAmongTheRest) {
  const WeightedSampler sampler({.weights = {1, 2, 3, 0, 4}, .epoch = 2, .replacement = false, .seed = 9});
  const double p[] = {0.1, 0.2, 0.3, 0, 0.4};
  constexpr int kEpochs = 20000;
  std::map<std::pair<std::int64_t, std::int64_t>, int> counts;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Indices drawn = sampler.indices(epoch);
    ASSERT_EQ(drawn.size(), 2u);
    ASSERT_NE(drawn[0], drawn[1]);
    ++counts[{drawn[0], drawn[1]}];
  }
  EXPECT_EQ(counts.size(), 12u);
  for (const auto& [pair, n] : counts) {
    const double q = p[pair.first] * p[pair.second] / (1 - p[pair.first]);
    EXPECT_NEAR(n, kEpochs * q, 5 * std::sqrt(kEpochs * q * (1 - q))) << pair.first << ", " << pair.second;
  }
}

TEST(WeightedSampler, WithoutReplacementAnEpochHasEachSampleWithAWeightOnce) {
  const WeightedSampler sampler({.weights = {1, 0, 5, 2}, .replacement = false});
  EXPECT_EQ(sampler.epoch_size(), 3);
  EXPECT_THAT(sorted(sampler.indices(4)), ElementsAre(0, 2, 3));
}

TEST(WeightedSampler, RefusesBadWeights) {
  const auto error = [](std::vector<double> weights, std::int64_t epoch, bool replacement) {
    return error_of<ArgumentError>([&] { WeightedSampler({weights, epoch, replacement, 0}); });
  };
  EXPECT_THAT(error({}, 0, true), HasSubstr("got none"));
  EXPECT_THAT(error({1, -1}, 0, true), HasSubstr("got -1 for sample 1"));
  EXPECT_THAT(error({1, NAN}, 0, true), HasSubstr("got nan for sample 1"));
  EXPECT_THAT(error({0, 0}, 0, true), HasSubstr("positive, finite sum"));
  EXPECT_THAT(error({1, 0, 2}, 3, false), HasSubstr("at most 2 samples"));
  EXPECT_THAT(error({1e308, 1e308}, 0, true), HasSubstr("finite sum"));
}

TEST(ShareSampler, PartsDivideAnEpoch) {
  const auto whole = std::make_shared<ShuffledSampler>(10, 5);
  Indices all;
  for (std::int64_t part = 0; part < 3; ++part) {
    const Indices mine = ShareSampler(whole, part, 3).indices(2);
    EXPECT_EQ(mine.size(), 4u);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), 10u);
  const Indices order = whole->indices(2);
  // 12 places for 10 samples: the first two come again.
  for (std::int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(std::ranges::count(all, order[static_cast<std::size_t>(i)]), i < 2 ? 2 : 1);
  all.clear();
  for (std::int64_t part = 0; part < 3; ++part) {
    const Indices mine = ShareSampler(whole, part, 3, UnevenShare::kDrop).indices(2);
    EXPECT_EQ(mine.size(), 3u);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  EXPECT_EQ(sorted(all), sorted(Indices(order.begin(), order.end() - 1)));
  EXPECT_THROW(ShareSampler(whole, 3, 3), ArgumentError);
  EXPECT_THROW(ShareSampler(whole, 0, 11, UnevenShare::kDrop), ArgumentError);
}

TEST(BatchSampler, FixedBatchesWithAndWithoutTheLast) {
  const auto order = std::make_shared<SequentialSampler>(7);
  EXPECT_THAT(FixedBatchSampler(order, 3, false).batches(0),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5), ElementsAre(6)));
  EXPECT_THAT(FixedBatchSampler(order, 3, true).batches(0), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
  EXPECT_THROW(FixedBatchSampler(order, 8, true), ArgumentError);
}

TEST(BucketBatchSampler, KeepsTheBudgetAndReadsEverySampleOnce) {
  BucketOptions options{.tokens = 64, .max_batch = 10, .pool = 50, .seed = 4};
  for (std::int64_t i = 0; i < 333; ++i) options.lengths.push_back((i * 37) % 60);
  const BucketBatchSampler sampler(options);
  std::int64_t waste = 0, all = 0;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    Indices seen;
    for (const Indices& batch : sampler.batches(epoch)) {
      std::int64_t longest = 0, sum = 0;
      for (const std::int64_t i : batch) {
        longest = std::max(longest, options.lengths[static_cast<std::size_t>(i)]);
        sum += options.lengths[static_cast<std::size_t>(i)];
      }
      EXPECT_LE(longest * std::ssize(batch), 64);
      EXPECT_LE(batch.size(), 10u);
      waste += longest * std::ssize(batch) - sum;
      all += longest * std::ssize(batch);
      seen.insert(seen.end(), batch.begin(), batch.end());
    }
    EXPECT_EQ(sorted(seen), first_numbers(333));
  }
  // A pool has 50 lengths, evenly spread from 1 to 60. After sorting, neighbors differ by about 1.2, so that a batch of
  // k samples has little padding. Without sorting, half of the tokens would be padding.
  EXPECT_LT(static_cast<double>(waste), 0.15 * static_cast<double>(all));
  EXPECT_NE(sampler.batches(0), sampler.batches(1));
  EXPECT_EQ(sampler.batches(1), sampler.batches(1));
}

TEST(BucketBatchSampler, RefusesASampleAboveTheBudget) {
  EXPECT_THAT(error_of<ArgumentError>([] {
                BucketBatchSampler({.lengths = {3, 9}, .tokens = 8});
              }),
              HasSubstr("got 9 for sample 1"));
}

TEST(MixtureSampler, SharesAreExactAndPassesGoOn) {
  // Shares 1/2, 1/3, 1/6 of 12 slots: 6, 4 and 2 samples in every epoch.
  const MixtureSampler sampler({.sizes = {3, 8, 100}, .weights = {3, 2, 1}, .epoch = 12, .seed = 5});
  std::vector<Indices> drawn(3);
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    int counts[3] = {};
    Indices in_epoch = sampler.indices(epoch);
    ASSERT_EQ(in_epoch.size(), 12u);
    for (const std::int64_t i : in_epoch) {
      const int set = i < 3 ? 0 : i < 11 ? 1 : 2;
      ++counts[set];
      drawn[static_cast<std::size_t>(set)].push_back(i);
    }
    EXPECT_THAT(counts, ElementsAre(6, 4, 2)) << "epoch " << epoch;
  }
  // 24 draws from the 3 samples of set 0 are 8 passes, 16 draws from set 1 are 2 passes, 8 draws from set 2 less than
  // one.
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(std::ranges::count(drawn[0], i), 8);
  for (std::int64_t i = 3; i < 11; ++i) EXPECT_EQ(std::ranges::count(drawn[1], i), 2);
  EXPECT_EQ(std::set<std::int64_t>(drawn[2].begin(), drawn[2].end()).size(), 8u);
  EXPECT_THAT(sampler.passes(4), ElementsAre(8, 2, 0.08));
}

TEST(MixtureSampler, FractionsOfSamplesAreCarriedToTheNextEpoch) {
  const MixtureSampler sampler({.sizes = {50, 50, 50}, .weights = {0.21, 0.345, 0.445}, .epoch = 7, .seed = 1});
  int counts[3] = {};
  const double shares[] = {0.21, 0.345, 0.445};
  for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
    for (const std::int64_t i : sampler.indices(epoch)) ++counts[i / 50];
    for (int s = 0; s < 3; ++s) EXPECT_NEAR(counts[s], shares[s] * 7 * static_cast<double>(epoch + 1), 1);
  }
  EXPECT_THAT(error_of<ArgumentError>([] {
                MixtureSampler({.sizes = {5, 5}, .weights = {1, 99}, .epoch = 50});
              }),
              HasSubstr("data set 0"));
}

TEST(BatchOrder, LastBatchIsFilledShortOrDropped) {
  const auto batches = [](LastBatch last) {
    BatchOrder order({.batch = 4, .order = SampleOrder::kSequential, .samples = 10, .last = last});
    std::vector<Indices> all;
    std::vector<std::int64_t> epochs;
    for (std::uint64_t slot = 0; all.size() < 5;) {
      const BatchOrigin origin = order.batch_at(slot);
      all.push_back(origin.samples);
      epochs.push_back(origin.epoch);
      slot = origin.end;
    }
    return all;
  };
  EXPECT_THAT(batches(LastBatch::kFilled),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(8, 9, 0, 1),
                          ElementsAre(2, 3, 4, 5), ElementsAre(6, 7, 8, 9)));
  EXPECT_THAT(batches(LastBatch::kShort),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(8, 9), ElementsAre(0, 1, 2, 3),
                          ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(batches(LastBatch::kDropped),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(0, 1, 2, 3),
                          ElementsAre(4, 5, 6, 7), ElementsAre(0, 1, 2, 3)));
}

TEST(BatchOrder, ADroppedRestBelongsToTheEpochBefore) {
  BatchOrder order({.batch = 4, .samples = 10, .last = LastBatch::kDropped});
  EXPECT_EQ(order.batch_at(4).end, 10u);
  EXPECT_EQ(order.batches_in(0), 2);
  order.quarantine(order.batch_at(0).samples[0]);
  order.quarantine(order.batch_at(0).samples[0]);
  EXPECT_EQ(order.batch_at(0).samples.size(), 4u);
  EXPECT_EQ(order.batch_at(order.batch_at(0).end).end, 10u) << "8 samples are two batches";
  BatchOrder never({.batch = 11, .samples = 10, .last = LastBatch::kDropped});
  EXPECT_THAT(error_of<DataError>([&] { never.batch_at(0); }), HasSubstr("no full batch of 11"));
}

struct Broken : Sampler {
  explicit Broken(Indices i) : all(std::move(i)) {}
  std::string name() const override { return "broken"; }
  std::int64_t epoch_size() const override { return 2; }
  Indices indices(std::int64_t) const override { return all; }
  Indices all;
};

TEST(BatchOrder, ChecksWhatASamplerOfTheUserReturns) {
  const auto error = [](Indices all) {
    BatchOrder order({.samples = 5, .sampler = std::make_shared<Broken>(std::move(all))});
    return error_of<ArgumentError>([&] { order.batch_at(0); });
  };
  EXPECT_THAT(error({1, 5}), HasSubstr("sampler 'broken': wanted samples from 0 to 4, got 5 in epoch 0"));
  EXPECT_THAT(error({1}), HasSubstr("wanted 2 samples per epoch, as epoch_size() says, got 1"));
}

TEST(BatchOrder, BatchesOfABatchSampler) {
  const auto fixed = std::make_shared<FixedBatchSampler>(std::make_shared<ShuffledSampler>(10, 3), 4, true);
  BatchOrder order({.samples = 10, .batch_sampler = fixed});
  const auto wanted = fixed->batches(0), next = fixed->batches(1);
  const BatchOrigin first = order.batch_at(0), second = order.batch_at(first.end), third = order.batch_at(second.end);
  EXPECT_EQ(first.samples, wanted[0]);
  EXPECT_EQ(second.samples, wanted[1]);
  EXPECT_EQ(second.end, 10u) << "the rest of the epoch has no batch";
  EXPECT_EQ(third.samples, next[0]);
  EXPECT_EQ(third.epoch, 1);
  EXPECT_THAT(third.slots, ElementsAre(10, 11, 12, 13));
  for (const std::int64_t sample : wanted[0]) order.quarantine(sample);
  EXPECT_EQ(order.batch_at(0).samples, wanted[1]) << "a batch without samples is left out";
}

}  // namespace
}  // namespace binade::io
